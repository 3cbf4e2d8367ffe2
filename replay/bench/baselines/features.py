"""Measures how long the classifier's features take, which does not count as the pipeline's overhead."""

import json
import subprocess
import sys
from collections.abc import Sequence

from schemas.errors import PochadeError

# replay is a client and may not import agents: a process of their own measures them
CHILD = """
import json, sys, time
from agents.classifier.judges import RuleClassifier
judge, took = RuleClassifier.load(), []
for prompt in json.load(sys.stdin):
    began = time.perf_counter()
    judge.classify(prompt)
    took.append(1000 * (time.perf_counter() - began))
    time.sleep(0.01)
print(json.dumps(took))
"""


def features_ms(prompts: Sequence[str]) -> list[float]:
    """Milliseconds for each prompt, in a process of its own that does one after a pause, like a steady low rate.

    Raises:
        PochadeError: the process failed; with its last words.
    """
    prompts_json = json.dumps([prompts[0], *prompts])  # the first call is slower and left out
    done = subprocess.run([sys.executable, "-c", CHILD], input=prompts_json, capture_output=True, text=True)
    if done.returncode:
        raise PochadeError(f"the classifier's features could not be timed: {done.stderr[-800:]}")
    took: list[float] = json.loads(done.stdout)
    return took[1:]
