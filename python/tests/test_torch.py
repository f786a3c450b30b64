"""elmo.torch.Head: gradients against autograd, learning behind an encoder, files, what is refused."""
import itertools
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from conftest import elmo_program

import elmo

torch = pytest.importorskip("torch")
from elmo.torch import Head  # noqa: E402

LABELS = [[0, 3], [1], [], [4, 2, 0]]
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=gpu)])
def device(request):
    return request.param


def weights_of(head, folder):
    """BF16 weights, read from the files as numbers."""
    head.save(folder)
    raw = (folder / "best" / "head-00001-of-00001.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    place = json.loads(raw[8:start])["weight"]
    bits = np.frombuffer(raw[start:], np.uint16, np.prod(place["shape"]), place["data_offsets"][0])
    return torch.from_numpy(bits.astype(np.uint16).view(np.int16).copy()).view(torch.bfloat16).view(*place["shape"]).float()


def test_the_gradient_is_autograds(tmp_path, device):
    torch.manual_seed(1)
    head = Head(5, 16, batch=4, lr=0.0, seed=3, threads=1, device=device)
    made = torch.randn(4, 16).to(torch.bfloat16).float().to(device).requires_grad_()
    loss = head(made, LABELS)
    (3 * loss).backward()
    assert loss.device == made.device and made.grad.device == made.device
    vectors = made.detach().cpu()
    vectors.grad = made.grad.cpu()
    weights = weights_of(head, tmp_path)
    target = torch.zeros(4, 5)
    for row, labels in enumerate(LABELS):
        target[row, labels] = 1
    again = vectors.detach().clone().requires_grad_()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(again @ weights.T, target, reduction="sum") / 4
    (3 * expected).backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    # g is rounded to BF16 (8 bits): each of 5 terms is off by 2^-9 of itself at most.
    bound = 3 / 4 * 2**-8 * weights.abs().sum(0).max().item()
    assert (vectors.grad - again.grad).abs().max().item() <= bound


@pytest.mark.parametrize("precision", ["bf16", "fp8", "e2m5"])
def test_the_bits_are_those_of_training(tmp_path, precision, device):
    """The head that elmo.train makes behind an encoder that stays as it is. Which row of a batch comes first is
    training's choice, so every order is tried, and one must give its bytes."""
    texts, names = ["a red apple", "the red stone", "a green house by the river"], [["a", "b"], ["b", "c"], ["d"]]
    run = elmo.train(texts=texts, labels=names, encoder="bag", width=64, vocab_size=100, batch_size=3, epochs=2, seed=5,
                     freeze_encoder=True, dropout=0, schedule="constant", warmup_steps=0, head_lr=0.1, augment="none",
                     precision=precision, head_kahan="0", test_share=0, validation=0, threads=1, device=device,
                     out=tmp_path / "run")
    assert run.result.steps == 2
    vectors = torch.from_numpy(run.embed(texts, device=device)).to(device)
    numbers = [[run.label_names.index(name) for name in row] for row in names]

    def files_of(folder):
        return [path.read_bytes() for path in sorted(folder.glob("best/head-*"))]

    same = 0
    for first, second in itertools.product(itertools.permutations(range(3)), repeat=2):
        head = Head(4, 64, batch=3, precision=precision, lr=0.1, seed=5, threads=1, device=device)
        for order in (first, second):
            head(vectors[list(order)], [numbers[row] for row in order])
        head.save(tmp_path / "head")
        same += files_of(tmp_path / "head") == files_of(tmp_path / "run")
    assert same > 0 and files_of(tmp_path / "run")


@pytest.mark.parametrize("precision", ["bf16", "fp8", "e3m4", "e2m5"])
def test_it_learns_behind_an_encoder(precision, device):
    torch.manual_seed(0)
    encoder = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16)).to(device)
    head = Head(40, 16, batch=40, lr=0.3, precision=precision, threads=1, device=device)
    optimiser = torch.optim.Adam(encoder.parameters(), 0.01)
    inputs, labels = torch.randn(40, 8, device=device), [[i] for i in range(40)]
    losses = []
    for _ in range(120):
        optimiser.zero_grad()
        loss = head(encoder(inputs), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    scores, best = head.eval().topk(encoder(inputs), 2)
    assert scores.shape == best.shape == (40, 2)
    assert best.device == inputs.device
    assert (best[:, 0].cpu() == torch.arange(40)).float().mean() > 0.9
    assert not list(head.parameters())


def test_steps_without_a_loss(device):
    """The same weights and gradients; the loss is NaN and costs nothing."""
    torch.manual_seed(4)
    first, second = (Head(5, 16, batch=4, precision="fp8", threads=1, device=device) for _ in range(2))
    for _ in range(3):
        vectors = torch.randn(4, 16, device=device).requires_grad_()
        again = vectors.detach().clone().requires_grad_()
        first(vectors, LABELS).backward()
        silent = second(again, LABELS, want_loss=False)
        silent.backward()
        assert silent.isnan() and (vectors.grad == again.grad).all()
    vectors = torch.randn(4, 16, device=device)
    assert (first.topk(vectors, 5)[0] == second.topk(vectors, 5)[0]).all()


@gpu
def test_the_loss_stays_on_the_gpu():
    """It is the CPU's, may be scaled in place, and is NaN where the gradient is not finite; saturations are counted."""
    torch.manual_seed(6)
    vectors = torch.randn(4, 16).to(torch.bfloat16)
    on_cpu, on_gpu = (Head(5, 16, batch=4, precision="fp8", threads=1, device=device) for device in ("cpu", "cuda"))
    for _ in range(3):
        expected, found = on_cpu(vectors, LABELS), on_gpu(vectors.cuda(), LABELS)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=0)
    assert on_gpu.saturations == on_cpu.saturations == 0
    made = vectors.cuda().requires_grad_()
    loss = on_gpu(made, LABELS)
    loss /= 4
    loss.backward()
    assert made.grad.isfinite().all()
    on_gpu.lr = 1e6
    on_gpu(vectors.cuda(), LABELS)
    assert on_gpu.saturations > 0
    assert on_gpu(vectors.cuda() * float("nan"), LABELS).isnan()


@gpu
def test_streams_wait_for_each_other():
    """Vectors that are still being made on the caller's stream, and a gradient that is read at once there."""
    torch.manual_seed(5)
    large = torch.randn(6000, 6000, device="cuda")
    start = torch.randn(64, 128, device="cuda")
    answers = []
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        head = Head(50_000, 128, batch=64, precision="fp8", device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            vectors = start.clone().requires_grad_()
            for _ in range(5):
                busy = large @ large  # the vectors of the next step are made behind it
                made = vectors * (1 + 0 * busy[0, 0])
                head(made, [[i] for i in range(64)], want_loss=False).backward()
                with torch.no_grad():
                    vectors -= 0.01 * vectors.grad
                vectors.grad = None
        torch.cuda.synchronize()
        answers.append(vectors.detach().clone())
    assert (answers[0] == answers[1]).all() and answers[0].isfinite().all()


@gpu
def test_vectors_of_either_memory(tmp_path):
    """On a GPU: vectors of the CPU are sent, those of a head on the CPU may not lie there; a saved head goes both ways."""
    vectors = torch.randn(4, 16).to(torch.bfloat16)
    heads = [Head(5, 16, batch=4, threads=1, device="cuda") for _ in range(2)]
    losses = [heads[0](vectors, LABELS).item(), heads[1](vectors.cuda(), LABELS).item()]
    assert losses[0] == losses[1]
    heads[0].save(tmp_path)
    on_cpu = Head(5, 16, batch=4, threads=1)
    on_cpu.load(tmp_path)
    torch.testing.assert_close(on_cpu.topk(vectors, 5)[0], heads[0].topk(vectors, 5)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(elmo.DataError, match="expected a tensor on cpu, found one on cuda:0"):
        on_cpu(vectors.cuda(), LABELS)


def test_state_and_files(tmp_path):
    vectors = torch.randn(4, 16)
    first, second = Head(5, 16, batch=4, precision="e2m5", threads=1), Head(5, 16, batch=4, precision="e2m5", threads=1)
    for _ in range(3):
        first(vectors, LABELS)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for _ in range(2):
        assert first(vectors, LABELS).item() == second(vectors, LABELS).item()
    assert (first.topk(vectors, 5)[0] == second.topk(vectors, 5)[0]).all()


@pytest.mark.parametrize("precision", ["bf16", "e2m5"])
def test_a_saved_head_is_a_run(tmp_path, precision):
    torch.manual_seed(2)
    head, vectors = Head(5, 16, batch=4, precision=precision, threads=1), torch.randn(4, 16)
    for _ in range(3):
        head(vectors, LABELS)
    head.save(tmp_path / "run", label_names=list("abcde"))
    with pytest.raises(elmo.DataError, match="a head that elmo.torch saved has none"):
        elmo.Run(tmp_path / "run").log
    scores, numbers = head.eval().topk(vectors, 5)
    answers = elmo.Run(tmp_path / "run").predict_vectors(vectors, top=5, device="cpu")
    assert answers.labels.tolist() == numbers.flatten().tolist() and answers.scores.tolist() == scores.flatten().tolist()
    assert answers.names[0] == ["abcde"[label] for label in numbers[0]]
    # The program, of the same vectors in a file.
    data = vectors.numpy().tobytes()
    header = json.dumps({"vectors": {"dtype": "F32", "shape": [4, 16], "data_offsets": [0, len(data)]}}).encode()
    (tmp_path / "v.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    printed = elmo_program("predict", tmp_path / "run", "--vectors", tmp_path / "v.safetensors", "--json", "--top", 5, "--device", "cpu")
    theirs = [label for line in printed.stdout.splitlines() for label in json.loads(line)["labels"]]
    assert [label["label"] for label in theirs] == answers.labels.tolist()
    assert [np.float32(label["score"]) for label in theirs] == answers.scores.tolist()
    # The server.
    with elmo.serve(tmp_path / "run", port=0, threads=1, device="cpu") as server:
        body = json.dumps({"vectors": vectors.tolist(), "top": 5}).encode()
        reply = json.load(urllib.request.urlopen(server.url + "v1/predict", body, timeout=60))
    assert [label for answer in reply["answers"] for label in answer["labels"]] == theirs
    # Training goes on as if it had not been broken.
    second = Head(5, 16, batch=4, precision=precision, threads=1)
    second.load(tmp_path / "run")
    head.train()
    for _ in range(2):
        assert head(vectors, LABELS).item() == second(vectors, LABELS).item()
    second.save(tmp_path / "run")
    with pytest.raises(elmo.ConfigError, match="prediction needs texts"):
        elmo.Run(tmp_path / "run").predict(["a text"])
    with pytest.raises(elmo.ConfigError, match="expected 5 names, one per label, found 2"):
        head.save(tmp_path / "run", label_names=["a", "b"])


def test_a_trained_run_is_not_replaced(run, texts):
    with pytest.raises(elmo.ConfigError, match="a run that was trained on texts"):
        Head(9, 16, batch=8, threads=1).save(run.path)
    vectors = run.embed(texts[:8], device="cpu")
    answers = run.predict(texts[:8], top=9, device="cpu")
    assert run.predict_vectors(vectors, top=9, device="cpu").scores.tolist() == answers.scores.tolist()


def test_a_runs_head_is_a_head(run, texts):
    """The vectors and the head of a run give the run's own answers."""
    answers = run.predict(texts[:8], top=9, device="cpu")  # a GPU adds in another order
    head = Head(9, 16, batch=8, threads=1)
    head.load(run.path + "/best")
    scores, labels = head.eval().topk(torch.from_numpy(run.embed(texts[:8], device="cpu")), 9)
    assert labels.flatten().tolist() == answers.labels.tolist()
    assert scores.flatten().tolist() == answers.scores.tolist()


def test_forms_of_labels():
    vectors = torch.randn(4, 16)
    matrix = np.zeros((4, 5), int)
    for row, labels in enumerate(LABELS):
        matrix[row, labels] = 1
    losses = {Head(5, 16, batch=4, threads=1)(vectors, labels).item()
              for labels in (LABELS, matrix, torch.from_numpy(matrix), [torch.tensor(row, dtype=int) for row in LABELS])}
    assert len(losses) == 1


def test_bad_input():
    head, vectors = Head(5, 16, batch=4, threads=1), torch.randn(4, 16)
    for wrong, labels, message in ((torch.randn(4, 15), LABELS, "width 16, found 15"), (torch.randn(16), LABELS, "shape"),
                                   (torch.ones(4, 16, dtype=int), LABELS, "tensor of floats"), ("x", LABELS, "'x'"),
                                   (torch.randn(5, 16), LABELS + [[0]], "batch of 1 to 4"), (vectors, LABELS[:3], "labels of 4"),
                                   (vectors, [[5], [], [], []], "from 0 to 4, found 5"),
                                   (vectors, [["a"], [], [], []], r"labels\[0\]: expected label numbers")):
        with pytest.raises(elmo.DataError, match=message):
            head(wrong, labels)
    with pytest.raises(elmo.NumericError, match="NaN or Inf"):
        head(vectors * float("nan"), LABELS)
    with pytest.raises(elmo.ConfigError, match="does not belong to Head"):
        Head(5, 16, epochs=3)
    with pytest.raises(RuntimeError, match="training step"):
        head.eval()(vectors, LABELS)


def test_the_example():
    """Hardly trained it is right about few texts: many labels occur in them."""
    pytest.importorskip("transformers")
    example = Path(__file__).parents[2] / "examples" / "torch_head.py"
    if not example.exists():
        pytest.skip("no examples here")
    flags = ["--labels", "2000", "--steps", "2", "--batch", "64", "--device", "cpu"]
    printed = subprocess.run([sys.executable, example, *flags], capture_output=True, text=True, check=True).stdout
    assert re.match(r"memory: \d[\d.]* [KM]iB of the head and its step, \d[\d.]* [MG]iB with", printed)
    assert float(re.search(r"first of 2000 labels: ([\d.]+) %", printed)[1]) < 50
