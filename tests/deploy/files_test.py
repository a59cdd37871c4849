#!/usr/bin/env python3
"""The files of deploy/: the alerts fire when they should, the panels and alerts use metrics that the server has, flags exist.

usage: files_test.py ROCMFORGE MODEL
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
sys.path.insert(0, str(ROOT / "tests/server"))

from demo_server import DemoServer  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]


def used_metrics(text):
    names = set(re.findall(r"rocmforge:([a-z0-9_]+)", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


class FilesTest(unittest.TestCase):
    @unittest.skipIf(shutil.which("promtool") is None, "promtool is not installed")
    def test_alerts_fire(self):
        for command in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
            done = subprocess.run(["promtool", *command], cwd=DEPLOY / "prometheus", capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_metrics_exist(self):
        server = DemoServer(PROGRAM, MODEL, "--threads", "1")
        try:
            have = set(re.findall(r"^# TYPE rocmforge:(\S+)", server.get("/metrics"), re.M))
        finally:
            server.stop()
        for name in ("prometheus/alerts.yml", "grafana/dashboard.json"):
            used = used_metrics((DEPLOY / name).read_text())
            self.assertGreater(len(used), 5)
            self.assertLessEqual(used, have, name)

    def test_the_dashboard_is_whole(self):
        board = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        self.assertTrue(all(panel["targets"] for panel in board["panels"]))

    def test_flags_and_routes_exist(self):
        described = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        for name in ("Dockerfile", "compose.yaml", "kubernetes/rocmforge.yaml"):
            flags = set(re.findall(r"(?<=[\"\[ ])--(?:host|port|[a-z]+-hosts|drain-seconds)\b", (DEPLOY / name).read_text()))
            self.assertTrue(flags, name)
            for flag in flags:
                self.assertIn(flag + " ", described, name)

    @unittest.skipIf(shutil.which("haproxy") is None, "haproxy is not installed")
    def test_the_proxys_file_is_right(self):
        addresses = {name: f"127.0.0.1:{port}" for name, port in
                     (("LISTEN", 8080), ("FIGURES", 8405), ("REPLICA_1", 9001), ("REPLICA_2", 9002), ("REPLICA_3", 9003))}
        done = subprocess.run(["haproxy", "-c", "-f", str(DEPLOY / "haproxy.cfg")], env=addresses | {"PATH": "/usr/sbin:/usr/bin"},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("WARNING", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
