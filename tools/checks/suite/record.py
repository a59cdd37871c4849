"""Which cases of GoogleTest programs passed in an earlier run, under a key of all that they depend on: what has the same key need not run again.

The key of a case holds the bytes of its program and of the libraries of the build that it loads, its environment, the machine, and the bytes of
all files and folders of the checkout that it has read. Programs of the tests find files through tests/paths.h alone, which writes each path into
the file that ROCMFORGE_TEST_READS names. Tests that are commands of their own, that skip, or that use an emulated or a real card are not kept."""
import functools
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import tempfile
import threading
import time

from green import digest, folder

READS = "ROCMFORGE_TEST_READS"
KEPT_FILES = 400  # one for each program and surroundings, the newest
NEVER = {"emulated", "gpu"}  # labels
# What differs between two shells of one user and changes no test.
VOLATILE = {"PWD", "OLDPWD", "SHLVL", "_", "LINES", "COLUMNS", "FORGE_JOBS", "FORGE_TEST_MINUTES", "FORGE_GREEN", READS}


@functools.cache
def digest_of_version(path, size, changed):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def digest_of_file(path):
    about = os.stat(path)
    return digest_of_version(str(path), about.st_size, about.st_mtime_ns)


def digest_of(path):
    """Of a file's bytes, of the names and bytes of all files in a folder, or of the fact that there is nothing."""
    path = pathlib.Path(path)
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return digest("folder", *(part for file in files for part in (file.relative_to(path), digest_of_file(file))))
    return digest("file", digest_of_file(path)) if path.is_file() else "nothing"


def newest_change(path):
    path = pathlib.Path(path)
    return max((each.lstat().st_mtime for each in [path, *(path.rglob("*") if path.is_dir() else ())] if os.path.lexists(each)), default=0.0)


@functools.cache
def machine():
    about = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    processor = [line for line in about.splitlines() if line.split("\t")[0] in ("model name", "flags", "Features")]
    cards = sorted(str(each) for pattern in ("kfd", "dri/*", "nvidia*") for each in pathlib.Path("/dev").glob(pattern))
    return digest(platform.platform(), len(os.sched_getaffinity(0)), *processor, *cards)


def digest_of_program(path, build):
    """Of a program and what it loads: libraries of the build by their bytes, others by what the package manager changes."""
    loaded = subprocess.run(["ldd", path], capture_output=True, text=True).stdout.split()
    libraries = sorted({word for word in loaded if word.startswith("/")})
    own = [each for each in libraries if pathlib.Path(each).is_relative_to(build)]
    stats = [os.stat(each) for each in libraries if each not in own]
    opened = sorted(map(str, pathlib.Path(path).parent.glob("*.so")))  # fakes of vendors' libraries
    return digest(digest_of_file(path), *map(digest_of_file, own + opened), *libraries, *(f"{each.st_size} {each.st_mtime_ns}" for each in stats))


class Record:
    """`build`: the folder of the programs. `environment`: of all tests, beside that of this process."""

    def __init__(self, build, environment, root):
        self.build, self.root = pathlib.Path(build), pathlib.Path(root)
        self.environment = {name: value for name, value in {**os.environ, **environment}.items() if name not in VOLATILE}
        self.folder = folder() / "tests"
        self.lock = threading.Lock()
        self.programs = {}  # digests

    def is_kept(self, test):
        return test.case is not None and not test.needs and not test.provides and not NEVER & set(test.labels)

    def surroundings(self, test):
        """The part of the key that the cases of a process share."""
        program = test.command[0]
        if program not in self.programs:
            self.programs[program] = digest_of_program(program, str(self.build))
        settings = {**self.environment, **test.environment}
        kernels = settings.get("ROCMFORGE_KERNEL_DIR")
        # The program that tests run also finds models by name in the folder it is started in.
        models = [f"{each.name} {each.stat().st_size}" for each in sorted(pathlib.Path(test.folder).glob("*.gguf"))]
        return digest(self.programs[program], machine(), test.folder, digest_of(kernels) if kernels else "", *models,
                      *(f"{name}={value}" for name, value in sorted(settings.items())))

    def file_of(self, test):
        return self.folder / f"{self.surroundings(test)}.json"

    def load(self, file):
        try:
            return json.loads(file.read_text())
        except (OSError, ValueError):
            return {}

    def whole(self, reads):
        """What was read, and what follows from it: the program of the build finds models by itself, scripts include others."""
        program = str(self.build / "apps/rocmforge/rocmforge")
        more = {str(self.root / "models")} if program in reads else set()
        if any(path.endswith(".py") for path in reads):
            more.add(str(self.root / "tools"))
        return sorted(set(reads) | more)

    def state(self, reads):
        return digest(*(part for path in reads for part in (path, digest_of(path))))

    def known(self, tests):
        """Those of the tests that need not run."""
        files, states, known = {}, {}, []
        for test in filter(self.is_kept, tests):
            file = self.file_of(test)
            if file not in files:
                files[file] = self.load(file)
            entry = files[file].get(test.case)
            if entry:
                reads = tuple(entry["reads"])
                if reads not in states:
                    states[reads] = self.state(reads)
                if entry["key"] == states[reads]:
                    known.append(test)
        return known

    def run(self, job, environment):
        """The job's results; those that passed are kept."""
        with tempfile.NamedTemporaryFile("r", prefix="reads") as file:
            begun = time.time()
            results = job.run({**environment, READS: file.name})
            reads = self.whole(file.read().splitlines())
        passed = {result.name for result in results if result.status == "passed"}
        tests = [test for test in job.tests if self.is_kept(test) and test.name in passed]
        if tests and str(self.root) not in reads and all(newest_change(path) < begun for path in [*reads, job.first.command[0]]):
            with self.lock:
                self.keep(tests, reads)
        return results

    def keep(self, tests, reads):
        """Each with all that its process has read: a case may use what one before it has loaded."""
        file = self.file_of(tests[0])
        kept = self.load(file)
        kept.update(dict.fromkeys((test.case for test in tests), {"key": self.state(reads), "reads": reads}))
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(kept))
        unfinished.replace(file)
        for old in sorted(self.folder.glob("*.json"), key=lambda each: each.stat().st_mtime)[:-KEPT_FILES]:
            old.unlink(missing_ok=True)
