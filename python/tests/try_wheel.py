"""What tools/make_wheel.sh runs in an environment that has the wheel and nothing else; with the word cuda, the wheel
elmo-xmc-cuda too."""
import json
import subprocess
import sys
from pathlib import Path

import elmo

program = Path(sys.executable).with_name("elmo")
if "cuda" in sys.argv:
    folder = Path(elmo.__file__).parent
    loaded = subprocess.run(["ldd", folder / "libelmo_cuda.so"], capture_output=True, text=True, check=True).stdout
    cublas = [line for line in loaded.splitlines() if "libcu" in line]
    print("\n".join(cublas))
    assert cublas and all(str((folder.parent / "nvidia").resolve()) in str(Path(line.split()[2]).resolve()) for line in cublas)
    plan = elmo.plan(labels=1_000_000, width=256, encoder="bag", batch_size=128, precision="fp8", device="cuda")
    printed = subprocess.run([program, "plan", "--labels", "1000000", "--width", "256", "--encoder", "bag", "--batch-size",
                              "128", "--precision", "fp8", "--device", "cuda", "--json"], capture_output=True, text=True,
                             check=True)
    assert json.loads(printed.stdout)["total_bytes"] == plan.total_bytes > 10**8
    sys.exit()

texts = [f"a {colour} thing, number {i}" for i in range(30) for colour in ("red", "green", "blue")]
run = elmo.train(texts=texts, labels=[text.split()[1] for text in texts], encoder="bag", width=16, vocab_size=300,
                 epochs=10, encoder_lr=0.02, head_lr=0.2, threads=1)
assert run.predict(["something blue"])[0][0].name == "blue"
answer = subprocess.run([program, "predict", run.path, "--top", "1"], input="a red one\n", capture_output=True, text=True,
                        check=True)
assert answer.stdout.endswith("\tred\n"), answer
