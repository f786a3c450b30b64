"""The card's clock and power while a command runs: what a figure depends on besides the program."""
import statistics
import subprocess

QUERY = ["nvidia-smi", "--query-gpu=name,clocks.sm,power.draw.instant", "--format=csv,noheader,nounits", "-lms", "50"]


def watched(command):
    """Runs a command; returns how it ended, and the card's name, clock and power while it worked: the medians of the
    samples with at least 80 % of the largest power. Nothing is known of the card without nvidia-smi."""
    try:
        watcher = subprocess.Popen(QUERY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        watcher = None
    done = subprocess.run(command, capture_output=True, text=True)
    if watcher is None:
        return done, {}
    watcher.terminate()
    samples = []
    for line in watcher.communicate()[0].splitlines():
        name, *numbers = [part.strip() for part in line.split(",")]
        try:
            clock, power = map(float, numbers)
        except ValueError:  # the last line may be cut
            continue
        samples.append((name, clock, power))
    if not samples:
        return done, {}
    most = max(power for _, _, power in samples)
    busy = [(clock, power) for _, clock, power in samples if power >= 0.8 * most]
    clock, power = (statistics.median(values) for values in zip(*busy))
    return done, {"card": samples[0][0], "clock": f"{clock:.0f} MHz", "power": f"{power:.0f} W"}
