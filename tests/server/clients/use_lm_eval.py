"""EleutherAI's lm-evaluation-harness, with a task of its own: three sums."""
import json
import pathlib
import tempfile

import client_features as shared
from client_features import MODEL, Row

chat, completions = Row("lm-eval, local-chat-completions"), Row("lm-eval, local-completions")
remote = {}  # the server's own tokenizer
SUMS = [(127, 458), (2, 3), (40, 2)]


def prepare(url, key):
    global server
    import os
    os.environ["OPENAI_API_KEY"] = key
    server = url + "/v1"
    remote.update(tokenizer_backend="remote", auth_token=key)


def evaluate(kind, path, task, **more):
    """The score of a task whose documents are the sums."""
    import lm_eval
    from lm_eval.tasks import TaskManager
    with tempfile.TemporaryDirectory() as folder:
        documents = pathlib.Path(folder) / "sums.jsonl"
        documents.write_text("".join(json.dumps({"q": f"What is {a} + {b}?", "a": str(a + b), "wrong": "the"}) + "\n" for a, b in SUMS))
        config = {"task": "sums", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(documents)}, "cache_dir": folder},
                  "test_split": "test", "doc_to_text": "{{q}}", **task}
        settings = {"model": MODEL, "base_url": server + path, "num_concurrent": 1, "max_retries": 1, **more}
        result = lm_eval.simple_evaluate(model=kind, model_args=settings, tasks=[config], task_manager=TaskManager(include_defaults=False),
                                         apply_chat_template=kind.endswith("chat-completions"), bootstrap_iters=0, verbosity="ERROR")
    return result["results"]["sums"]


EXACT = {"output_type": "generate_until", "doc_to_target": "{{a}}", "generation_kwargs": {"until": ["\n"], "temperature": 0, "max_gen_toks": 20},
         "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]}
CHOICE = {"output_type": "multiple_choice", "doc_to_choice": ["{{a}}", "{{wrong}}"], "doc_to_target": 0,
          "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]}


@chat.can("answer")
def _():
    shared.same(evaluate("local-chat-completions", "/chat/completions", EXACT)["exact_match,none"], 1)


@completions.can("answer")
def _():
    shared.check("exact_match,none" in evaluate("local-completions", "/completions", EXACT, **remote), "no score")


@completions.can("log probabilities")
def _():
    score = evaluate("local-completions", "/completions", CHOICE, **remote)["acc,none"]
    shared.check(0 <= score <= 1, f"the score is {score}")


shared.run(prepare)
