#!/usr/bin/env python3
"""What the demo model says to held-out pictures: pictures_test.py PROGRAM MODEL FOLDER

FOLDER has pictures and questions.json, as tools/demo_model/make_pictures.py writes them. A server gets each picture in a
request; its encoder is the file that it finds beside the model."""
import base64
import collections
import concurrent.futures
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from demo_server import DemoServer  # noqa: E402

REQUIRED_SHARE = 0.8  # of the pictures of each skill; nine of ten are right, and rounding differs from processor to processor


def ask(server, folder, entry):
    picture = base64.b64encode((folder / entry["picture"]).read_bytes()).decode()
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
             {"type": "text", "text": entry["question"]}]
    body = {"messages": [{"role": "user", "content": parts}], "temperature": 0, "max_tokens": 32}
    return server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]


def main():
    program, model, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    entries = json.loads((folder / "questions.json").read_text())
    server = DemoServer(program, model)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as asking:
            replies = list(asking.map(lambda entry: ask(server, folder, entry), entries))
    finally:
        server.stop()
    asked, right = collections.Counter(), collections.Counter()
    for entry, reply in zip(entries, replies):
        asked[entry["skill"]] += 1
        right[entry["skill"]] += reply.strip() == entry["expect"]
        if reply.strip() != entry["expect"]:
            print(f"{entry['picture']}: '{entry['question']}' expected '{entry['expect']}', answered {reply!r}")
    for skill in asked:
        print(f"{skill:<6} {right[skill]} of {asked[skill]}, {right[skill] / asked[skill]:.1%}")
    if sum(asked.values()) < 40 or any(right[skill] < REQUIRED_SHARE * asked[skill] for skill in asked):
        sys.exit(f"pictures_test: of each skill {REQUIRED_SHARE:.0%} must be right, of 40 questions or more")


if __name__ == "__main__":
    main()
