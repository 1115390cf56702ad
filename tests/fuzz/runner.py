"""Runner: mutations in processes of their own, so that a crash or a hang is one more verdict."""

import contextlib
import multiprocessing
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fuzz import mutations, specimens

SECONDS = 60  # for a mutation, and the right answers the first time
MEMORY = 12 << 30  # bytes of addresses
REFUSED, SAME, WRONG = "refused", "no effect", "WRONG"


class Verdict(NamedTuple):
    """What came of a mutation; told: of what is wrong, or of the refusal."""

    kind: str
    number: int
    mutation: str
    verdict: str
    told: str


def build(root):
    """All specimens, under a folder, by a process of its own: jobs are set up otherwise there."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(specimens.build, (Path(root),))


def run(every, root, numbers, *, seed, workers=1):
    """Mutation `n` is of specimen n modulo their number."""
    lots = [list(numbers)[k::workers] for k in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        tasks = [
            pool.submit(_run, every, Path(root) / f"worker-{k}", lot, seed)
            for k, lot in enumerate(lots)
        ]
        return sorted((v for task in tasks for v in task.result()), key=lambda v: v.number)


def _run(every, folder, numbers, seed):
    found, worker = [], None
    try:
        for number in numbers:
            worker = worker if worker is not None and worker.alive else Worker(folder)
            found.append(worker.judge(every[number % len(every)], seed, number))
    finally:
        if worker is not None:
            worker.end()
    return found


class Worker:
    """A process that judges one mutation after another."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, folder), daemon=True)
        self._process.start()
        there.close()
        self._here.recv()  # it is ready
        self.alive = True

    def judge(self, specimen, seed, number):
        self._here.send((specimen, seed, number))
        told = "hangs"
        if self._here.poll(SECONDS):
            with contextlib.suppress(EOFError, ConnectionResetError):
                return self._here.recv()
            self._process.join(SECONDS)
            told = f"dies of {signal.Signals(-self._process.exitcode).name}"
        self.end()
        return Verdict(specimen.kind, number, "", WRONG, told)

    def end(self):
        self.alive = False
        self._process.kill()
        self._process.join()
        self._here.close()


def _serve(pipe, folder):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(folder)
    specimens.prepare()
    right = {}
    pipe.send("ready")
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(*task, right))


def judge(specimen, seed, number, right):
    """Damage a copy of the specimen and ask; right: the answers to whole ones, by kind."""
    here = Path("here").absolute()
    if specimen.whole not in right:
        mutations.restore(here, specimen.folder)
        with contextlib.chdir(here):
            right[specimen.whole] = specimen.answers()
    mutations.restore(here, specimen.folder)
    rng = np.random.default_rng([seed, number])
    done = mutations.mutate(here / specimen.file, rng)
    with contextlib.chdir(here):
        found = specimen.answers()
    verdict, told = SAME, ""
    for question, answer in found.items():
        if answer == right[specimen.whole][question]:
            continue
        if not answer.startswith(REFUSED):
            return Verdict(specimen.kind, number, done, WRONG, f"{question}: {answer[:300]}")
        verdict, told = REFUSED, answer
    return Verdict(specimen.kind, number, done, verdict, told)
