"""The scan of codes on a GPU: the only Triton in the project, which comes with torch for CUDA."""

# mypy: ignore-errors
# ruff: noqa: N803, PLR0917
try:
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
except ImportError:
    triton = None

scan = None

if triton is not None:

    @triton.jit
    def scan(
        words, alive, queries, limits, hits, keys, start, stop, places, count, room,
        WIDTH: tl.constexpr, TILE: tl.constexpr, PLACE: tl.constexpr,
    ):  # fmt: skip
        """Write the keys of the codes in [start, stop) that are closer to a query than its limit.

        words: (WIDTH, places) int64; alive: (places,) uint8, or None if all count; queries:
        (count, WIDTH) int64; limits: (count,) int32; hits: (count,) int32, added to; keys:
        (count, room) int64, written in any order, as far as there is room: the place, and the
        distance above its PLACE bits. One program compares TILE codes with all queries.
        """
        place = start + tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
        inside = place < stop
        if alive is not None:
            inside &= tl.load(alive + place, mask=inside, other=0) != 0
        first = tl.load(words + place, mask=inside, other=0)
        for query in range(count):
            distance = libdevice.popc(first ^ tl.load(queries + query * WIDTH))
            for word in tl.static_range(1, WIDTH):
                plane = words + word * tl.cast(places, tl.int64)
                code = tl.load(plane + place, mask=inside, other=0)
                distance += libdevice.popc(code ^ tl.load(queries + query * WIDTH + word))
            near = inside & (distance < tl.load(limits + query))
            if tl.max(near.to(tl.int32)) > 0:
                slot = tl.atomic_add(hits + query + tl.zeros([TILE], tl.int32), 1, mask=near)
                key = (distance.to(tl.int64) << PLACE) + place
                room_left = near & (slot < room)
                tl.store(keys + query.to(tl.int64) * room + slot, key, mask=room_left)
