"""What the files of the project include, by their text: now or in a commit. Files are named by their path from the checkout's root."""
import io
import pathlib
import posixpath
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "library", "apps", "tests")
INCLUDE_ROOTS = ("src", "library/include", "library", "tests", "apps", "apps/options", "apps/rocmforge")
GPU_SOURCES, HOST_SOURCES = (".hip", ".cu"), (".cpp",)
KINDS = (".h", *GPU_SOURCES, *HOST_SOURCES)
DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(if|endif|include)\w*[ \t]*("[^"\n]+"|<[^>\n]+>)?', re.M)


def texts_now():
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*")) if file.suffix in KINDS]
    return {file.relative_to(ROOT).as_posix(): file.read_text() for file in files}


def texts_of(commit):
    folders = set(subprocess.run(["git", "ls-tree", "--name-only", commit], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())
    packed = subprocess.run(["git", "archive", commit, *folders.intersection(FOLDERS)], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        return {entry.name: files.extractfile(entry).read().decode() for entry in files if entry.isfile() and entry.name.endswith(KINDS)}


def reached_from(names, includes):
    """All that `names` include, by themselves and through others."""
    reached, waiting = set(), list(names)
    while waiting:
        new = includes.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


class Includes:
    """`any` and `sure`: {file: all that it includes, also through others}, `sure` without what stands in an #if. The project's files by
    name, others as <header>."""

    def __init__(self, texts):
        self.texts = texts
        any_of, sure_of = {}, {}
        for name, text in texts.items():
            any_of[name], sure_of[name] = self._included_by(name, text)
        self.any = {name: frozenset(reached_from([name], any_of)) for name in texts}
        self.sure = {name: frozenset(reached_from([name], sure_of)) for name in texts}

    def _included_by(self, name, text):
        every, sure, depth = set(), set(), 0
        for directive, header in DIRECTIVE.findall(text):
            if directive != "include":
                depth += 1 if directive == "if" else -1
            elif header:
                found = header if header.startswith("<") else self._find(header[1:-1], posixpath.dirname(name))
                every.add(found)
                sure |= {found} if depth == 0 else set()
        return every - {None}, sure - {None}

    def _find(self, header, beside):
        paths = (posixpath.normpath(posixpath.join(folder, header)) for folder in (beside, *INCLUDE_ROOTS))
        return next((path for path in paths if path in self.texts), None)

    def has_lost(self, name, before):
        """Whether a file reaches less than it did in `before`."""
        return bool(before.any[name] - self.any[name] or before.sure[name] - self.sure[name])
