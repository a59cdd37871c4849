#!/usr/bin/env python3
"""The hub's own library reads the cache that `rocmforge pull` has made, and the other way round.

usage: library_test.py ROCMFORGE VENV. huggingface_hub is installed from PyPI into the folder VENV; where that can't be done the test
is skipped (exit code 77).
"""
import os
import pathlib
import subprocess
import sys
import unittest

import hub_server
import pull_testing
from pull_testing import CONTENT, FILE, NAME, PullTest

PACKAGE = "huggingface_hub>=0.23,<2"
SKIPPED = 77


def enter_venv(folder):
    """Runs the test again inside the virtual environment, which is made first."""
    python = folder / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == folder.resolve():
        return
    if not (folder / "ready").exists():
        for command in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "--quiet", "--retries", "1", PACKAGE]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
                print(f"skipped: huggingface_hub cannot be installed: {' '.join(reason)}")
                sys.exit(SKIPPED)
        (folder / "ready").touch()
    os.execv(python, [str(python), *sys.argv])


class Library(PullTest):
    def test_it_finds_what_was_pulled(self):
        import huggingface_hub
        path = self.pull()
        self.assertEqual(huggingface_hub.try_to_load_from_cache(NAME, FILE, cache_dir=self.cache), str(path))
        info = huggingface_hub.scan_cache_dir(self.cache)
        self.assertEqual((len(info.repos), info.warnings), (1, []))
        repository = next(iter(info.repos))
        self.assertEqual((repository.repo_id, repository.repo_type, repository.size_on_disk), (NAME, "model", len(CONTENT)))
        revision = next(iter(repository.revisions))
        self.assertEqual((revision.commit_hash, set(revision.refs)), (hub_server.COMMIT, {"main"}))
        self.assertEqual([file.file_name for file in revision.files], [FILE])

    def test_ollamas_models_are_no_trouble(self):
        import huggingface_hub
        self.hub.add_ollama("library/tiny", "latest", CONTENT)
        self.pull("tiny")
        self.pull()
        info = huggingface_hub.scan_cache_dir(self.cache)
        self.assertEqual((len(info.repos), info.warnings), (2, []))

    def test_what_the_library_downloads_is_there(self):
        """Its cache as it makes it, with the names that it makes."""
        from huggingface_hub import file_download
        folder = self.folder()
        self.assertEqual(file_download.repo_folder_name(repo_id=NAME, repo_type="model"), folder.name)
        for below in ("blobs", "refs", "snapshots/" + hub_server.COMMIT):
            (folder / below).mkdir(parents=True)
        blob = folder / "blobs" / hub_server.sha256(CONTENT)
        blob.write_bytes(CONTENT)
        (folder / "refs" / "main").write_text(hub_server.COMMIT)
        pointer = folder / "snapshots" / hub_server.COMMIT / FILE
        file_download._create_symlink(str(blob), str(pointer), new_blob=True)
        self.assertEqual(self.pull(), pointer)
        self.assertEqual(self.hub.asked("files"), [])


if __name__ == "__main__":
    enter_venv(pathlib.Path(sys.argv[2]))
    pull_testing.PullTest.program = sys.argv[1]
    unittest.main(argv=sys.argv[:1], verbosity=2)
