"""Learn and encode a DataFrame of Spark Connect, with columns id and vector.

All workers need the same version of streambits. Rows are divided into partitions by their ids,
because Spark promises neither which task gets a row nor in which order: the same rows then give the
same model, to the bit, on any cluster. A task holds the rows that come to it in memory.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions

import streambits as sb
from streambits.engines.partitions import ArrayPartition
from streambits.engines.shards import MergeTree, finished, learn_partition


def vectors(table):
    lists = table["vector"].combine_chunks()
    return lists.flatten().to_numpy().reshape(len(lists), -1)


def learn(frame, begin, n_partitions):
    """`begin` has landmarks and goes to every task, as `sb.ssbc(sample, bits=64)`."""
    model = sb.to_bytes(begin.shard())

    def work(batches):
        whole = [batch for batch in batches if batch.num_rows]
        table = pa.Table.from_batches(whole) if whole else pa.table({"partition": []})
        for number in pc.unique(table["partition"]).to_pylist():
            part = table.filter(pc.equal(table["partition"], number)).sort_by("id")
            shard = learn_partition(sb.from_bytes(model), ArrayPartition(number, vectors(part)))
            columns = [pa.array([number], pa.int32()), pa.array([sb.to_bytes(shard)])]
            yield pa.record_batch(columns, ["number", "shard"])

    number = functions.pmod(
        functions.crc32(functions.col("id").cast("string")), functions.lit(n_partitions)
    ).cast("int")
    keyed = frame.select("id", "vector", number.alias("partition"))
    keyed = keyed.repartition(n_partitions, "partition")
    tree = MergeTree(n_partitions)
    for number, shard in keyed.mapInArrow(work, "number int, shard binary").toLocalIterator():
        tree.add(number, sb.from_bytes(bytes(shard)))  # a task that was repeated counts once
    return finished(begin, tree.result())  # which says what is missing


def encode(frame, coder):
    """The DataFrame of ids and codes; without refinement that column has no bytes."""
    model = sb.to_bytes(coder)

    def work(batches):
        coder = sb.from_bytes(model)
        for batch in (batch for batch in batches if batch.num_rows):
            rows = vectors(pa.Table.from_batches([batch]))
            codes = coder.encode(rows)
            parts = codes.packed, codes.packed[:, :0] if not codes.refine else codes.refinement
            columns = [pa.array([one.tobytes() for one in part], pa.binary()) for part in parts]
            yield pa.record_batch([batch["id"], *columns], ["id", "code", "refinement"])

    return frame.mapInArrow(work, "id bigint, code binary, refinement binary")
