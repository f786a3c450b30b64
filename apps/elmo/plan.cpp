// elmo plan: memory and time of a training run, without running it.
#include <fmt/format.h>

#include "elmo/elmo.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

// What fits of the table: the same precision with fewer texts, or another one with as many.
std::string advice(const PlanReport& plan) {
    const PlanChoice *own = nullptr, *smaller = nullptr, *other = nullptr;
    for (const PlanChoice& choice : plan.choices)
        if (choice.planned) own = &choice;
    for (const PlanChoice& choice : plan.choices) {
        if (own == nullptr || !choice.fits) continue;
        if (choice.precision == own->precision &&
            (smaller == nullptr || choice.batch_size > smaller->batch_size))
            smaller = &choice;
        if (choice.batch_size == own->batch_size && other == nullptr) other = &choice;
    }
    if (other != nullptr) return fmt::format("--precision {} fits", other->precision);
    if (smaller != nullptr) return fmt::format("--batch-size {} fits", smaller->batch_size);
    return plan.memory.advice();
}

void run_plan(Invocation& call) {
    const Config& config = call.config;
    if (config.data.empty() && config.labels == 0 && config.shape.empty() && config.init.empty())
        usage_error(plan_verb(), "expected DATA, --labels or --shape: a plan needs the number of labels");
    const PlanReport plan = plan_training(call.context, call.config);
    const MemoryReport& report = plan.memory;
    if (call.json)
        write_json(plan);
    else
        write_stdout(plan.describe());
    if (!report.fits() && plan.choices.empty())
        throw OutOfMemory(
            fmt::format("the plan needs {}, more than max_memory of {}, to which a linear training does "
                        "not keep; --encoder bag does",
                        human_bytes(report.total_bytes()), human_bytes(report.max_bytes)));
    if (!report.fits())
        throw OutOfMemory(
            fmt::format("the plan needs {}, more than max_memory of {}, and training would stop; {}",
                        human_bytes(report.total_bytes()), human_bytes(report.max_bytes), advice(plan)));
}

Config resolve_of_plan(const Invocation& call) {
    return resolve_plan(call.context, call.config);
}

}  // namespace

Verb plan_verb() {
    return {"plan",
            'm',
            "Show the memory and the likely time of a training run without running it",
            "[DATA] [options]",
            {{"DATA", "Data set to plan for; not needed with --labels"}},
            0,
            1,
            false,
            {},
            {{"elmo plan --labels 3000000 --batch-size 128 --precision fp8 --encoder models/all-MiniLM-L6-v2",
              "Three million labels, 8-bit head"},
             {"elmo plan --labels 100000000 --precision e2m5 --shape amazon-3m --ranks 8",
              "The fullest of eight ranks"},
             {"elmo plan data/wordnet --recipe recipes/demo.toml --max-memory 1GiB",
              "Chunks chosen to fit a budget"}},
            "Memory is exact, of a linear model an estimate; the time is an estimate from the measured speed "
            "of this machine, without reading, "
            "validation and saving. A table shows what other batch sizes and precisions would take. With "
            "--max-memory the exit status is 1 if the plan does not fit.",
            run_plan,
            {},
            nullptr,
            resolve_of_plan,
            first_word};
}

}  // namespace elmo::cli
