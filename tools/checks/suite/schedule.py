"""Runs jobs beside each other: those that take long first, never two with the same lock, and none before what it needs."""
import concurrent.futures
import dataclasses
import pathlib
import threading

from suite.commands import run_test
from suite.results import Result
from suite.shards import run_shard, split

FEW = 10  # cases of a program that are worth a process


@dataclasses.dataclass
class Job:
    tests: list
    is_shard: bool

    @property
    def first(self):
        return self.tests[0]

    @property
    def name(self):
        return f"{pathlib.Path(self.first.command[0]).name} ({len(self.tests)} tests)" if self.is_shard else self.first.name

    def run(self, environment):
        return run_shard(self.tests, environment) if self.is_shard else [run_test(self.first, environment)]


def jobs_of(tests, most_shards):
    """Cases of one program share a process where they want the same surroundings."""
    programs, jobs = {}, []
    for test in tests:
        if test.case is None or test.needs or test.provides:
            jobs.append(Job([test], False))
        else:
            surroundings = (test.command[0], test.folder, test.seconds, *test.locks, *sorted(test.environment.items()))
            programs.setdefault(surroundings, []).append(test)
    for cases in programs.values():
        jobs += [Job(shard, True) for shard in split(cases, min(most_shards, -(-len(cases) // FEW)))]
    return sorted(jobs, key=lambda job: (job.first.cost, len(job.tests)), reverse=True)


class Running:
    """What jobs that run hold, and what they have left."""

    def __init__(self, jobs):
        self.changed = threading.Condition()
        self.waiting, self.held = list(jobs), set()
        self.missing = {name for job in jobs for name in job.first.provides}  # fixtures that are still to be provided
        self.broken = set()

    def next(self):
        """The next job that may run; None when there are no more."""
        with self.changed:
            while self.waiting:
                for job in self.waiting:
                    if not self.held & set(job.first.locks) and not self.missing & set(job.first.needs):
                        self.waiting.remove(job)
                        self.held |= set(job.first.locks)
                        return job
                self.changed.wait()
        return None

    def ended(self, job, results):
        with self.changed:
            self.held -= set(job.first.locks)
            self.missing -= set(job.first.provides)
            if any(result.status != "passed" for result in results):
                self.broken |= set(job.first.provides)
            self.changed.notify_all()


def run_all(tests, environment, slots, most_shards, say, record=None):
    """The results of all tests. `say` is called with a line for each job that ends, and the output of what failed. `record`: keeps what passed."""
    jobs = jobs_of(tests, most_shards)
    running, results = Running(jobs), []

    def work():
        while (job := running.next()) is not None:
            if broken := running.broken & set(job.first.needs):
                found = [Result(job.first.name, "failed", f"what it needs has failed: {', '.join(sorted(broken))}")]
            else:
                try:
                    found = record.run(job, environment) if record else job.run(environment)
                except Exception as error:  # of the runner: no test may be lost by it
                    found = [Result(test.name, "failed", f"the runner: {error!r}") for test in job.tests]
            running.ended(job, found)
            with running.changed:
                results.extend(found)
                say(job.name, found)

    with concurrent.futures.ThreadPoolExecutor(slots) as pool:
        for done in [pool.submit(work) for _ in range(slots)]:
            done.result()
    return results
