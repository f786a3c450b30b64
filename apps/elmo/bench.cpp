// elmo bench: speed beside the roofline of this machine.
#include "elmo/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/messages.h"
#include "elmo/resolve.h"
#include "launch.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::string table(const BenchResult& result) {
    const bool tokenize = result.what == "tokenize";
    std::string out = fmt::format("{} on {}\n\n", result.what, result.device);
    std::vector<std::vector<std::string>> rows;
    if (!result.phases.empty()) rows.push_back({"phase", "ms", "GFLOP", "GB", "GFLOP/s", "GB/s"});
    const auto phase_row = [&](const std::string& name, double ms, double flops, double bytes) {
        rows.push_back({name, fmt::format("{:.3f}", ms), fmt::format("{:.3f}", flops / 1e9),
                        fmt::format("{:.4f}", bytes / 1e9), fmt::format("{:.1f}", flops / 1e6 / ms),
                        fmt::format("{:.2f}", bytes / 1e6 / ms)});
    };
    for (const BenchPhase& phase : result.phases)
        phase_row(phase.name, phase.median_ms, phase.flops, phase.bytes);
    if (!result.phases.empty()) {
        phase_row("all", result.median_ms, result.flops, result.bytes);
        out += aligned(rows) + "\n";
    }
    Facts facts = {{"median", fmt::format("{:.3f} ms ({:.3f} to {:.3f})", result.median_ms, result.min_ms,
                                          result.max_ms)}};
    if (tokenize)
        facts.push_back(
            {"speed",
             fmt::format("{:.1f} MB/s ({:.0f} MB per minute and thread)", result.items_per_second / 1e6,
                         result.items_per_second * 60 / 1e6 /
                             static_cast<double>(std::max<std::int64_t>(result.threads, 1)))});
    else
        facts.push_back({"speed", fmt::format("{:.1f} texts/s{}", result.items_per_second,
                                              result.what == "predict" ? ", from their tokens" : "")});
    if (result.tokenize_ms > 0)
        facts.push_back(
            {"with tokenizing", fmt::format("{:.1f} texts/s; {:.3f} ms per batch on {} threads",
                                            result.texts_per_second, result.tokenize_ms, result.threads)});
    if (result.peak_gflops > 0)
        facts.push_back({"machine, measured",
                         fmt::format("{:.1f} GFLOP/s, {:.2f} GB/s", result.peak_gflops, result.peak_gbytes)});
    if (result.floor_ms > 0)
        facts.push_back({"floor", fmt::format("{:.3f} ms: {:.1f} % of the speed of light", result.floor_ms,
                                              result.sol_percent)});
    if (result.memory.total_bytes() > 0)
        facts.push_back({"peak memory, planned", human_bytes(result.memory.total_bytes())});
    if (result.measured_peak_bytes > 0)
        facts.push_back(
            {"peak memory, measured", measured_memory(result.measured_peak_bytes, result.memory)});
    if (result.skipped_steps > 0)
        facts.push_back(
            {"steps skipped", fmt::format("{} of the encoder: gradients beyond FP16", result.skipped_steps)});
    return out + aligned(facts);
}

void run_bench(Invocation& call) {
    const std::vector<std::string> kinds = {"step", "head", "encoder", "predict", "tokenize"};
    const std::string& what = call.words[0];
    if (std::find(kinds.begin(), kinds.end(), what) == kinds.end())
        usage_error(bench_verb(),
                    fmt::format("expected step, head, encoder, predict or tokenize, found '{}'{}",
                                quoted(what), did_you_mean(what, kinds)));
    const BenchResult result = bench(call.context, what, call.config);
    if (!is_first_rank()) return;
    if (call.json)
        write_json(result);
    else
        write_stdout(table(result));
}

Config resolve_bench(const Invocation& call) {
    return resolve_plan(call.context, call.config);
}

}  // namespace

Verb bench_verb() {
    return {
        "bench",
        'b',
        "Measure speed beside the roofline of this machine",
        "step|head|encoder|predict|tokenize [options]",
        {{"WHAT",
          "step: one whole training step; head: the classifier's part; encoder: the encoder's; predict: the "
          "best --top labels of texts, from their tokens, and with --tokenizer also from the texts; "
          "tokenize"}},
        1,
        1,
        false,
        {},
        {{"elmo bench head --labels 500000 --width 384 --batch-size 128 --precision fp8",
          "The classifier's step"},
         {"mpirun -n 4 elmo bench step --shape amazon-3m --device cuda --precision fp8",
          "A step of four ranks, exchanges included"},
         {"elmo bench step --encoder models/all-MiniLM-L6-v2 --labels 100000 --batch-size 64 --max-length 32",
          "A whole step"}},
        "Prints medians, the work of a step, the measured product and copy rates of the machine, and the "
        "share of "
        "the speed of light: the least time that those rates allow, divided by the measured time.",
        run_bench,
        {},
        nullptr,
        resolve_bench};
}

}  // namespace elmo::cli
