"""What tools/make_wheel.sh runs in an environment that has the wheel and nothing else."""
import subprocess
import sys
from pathlib import Path

import elmo

texts = [f"a {colour} thing, number {i}" for i in range(30) for colour in ("red", "green", "blue")]
run = elmo.train(texts=texts, labels=[text.split()[1] for text in texts], encoder="bag", width=16, vocab_size=300,
                 epochs=10, encoder_lr=0.02, head_lr=0.2, threads=1)
assert run.predict(["something blue"])[0][0].name == "blue"
program = Path(sys.executable).with_name("elmo")
answer = subprocess.run([program, "predict", run.path, "--top", "1"], input="a red one\n", capture_output=True, text=True,
                        check=True)
assert answer.stdout.endswith("\tred\n"), answer
