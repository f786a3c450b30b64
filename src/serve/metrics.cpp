#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace elmo {
namespace {

constexpr std::array kSeconds = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                 0.1,    0.2,   0.5,   1.0,   2.0,  5.0,  10.0};
constexpr std::array kTexts = {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0};

std::string opening(const char* name, const char* type, const char* help) {
    return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

std::string metric_text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out + "\"";
}

void Histogram::add(double value) {
    ++counts_[static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                       bounds_.begin())];
    sum_ += value;
}

std::string Histogram::lines(const std::string& name, const std::string& labels) const {
    std::string out;
    std::int64_t below = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        below += counts_[i];
        out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                           i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf", below);
    }
    return out + fmt::format("{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_, name, labels, below);
}

void Metrics::request(const std::string& route, int status, double seconds, std::int64_t texts) {
    const std::lock_guard lock(mutex_);
    ++requests_[{route, status}];
    seconds_.try_emplace(route, kSeconds).first->second.add(seconds);
    texts_ += texts;
}

void Metrics::batch(const std::string& model, std::int64_t texts) {
    const std::lock_guard lock(mutex_);
    batches_.try_emplace(model, kTexts).first->second.add(static_cast<double>(texts));
}

void Metrics::reloaded(const std::string& model) {
    const std::lock_guard lock(mutex_);
    ++reloads_[model];
}

std::string Metrics::page(const std::vector<Gauge>& gauges) const {
    const std::lock_guard lock(mutex_);
    std::string out = opening("elmo_requests_total", "counter", "Requests by route and status.");
    for (const auto& [key, count] : requests_)
        out += fmt::format("elmo_requests_total{{route={},status=\"{}\"}} {}\n", metric_text(key.first),
                           key.second, count);
    out += opening("elmo_texts_total", "counter", "Texts of answered requests.");
    out += fmt::format("elmo_texts_total {}\n", texts_);
    out += opening("elmo_request_seconds", "histogram", "From a complete request to its answer.");
    for (const auto& [route, histogram] : seconds_)
        out += histogram.lines("elmo_request_seconds", "route=" + metric_text(route));
    out += opening("elmo_batch_texts", "histogram", "Texts of a batch.");
    for (const auto& [model, histogram] : batches_)
        out += histogram.lines("elmo_batch_texts", "model=" + metric_text(model));
    out += opening("elmo_reloads_total", "counter", "New checkpoints taken.");
    for (const auto& [model, count] : reloads_)
        out += fmt::format("elmo_reloads_total{{model={}}} {}\n", metric_text(model), count);
    std::set<std::string> opened;
    for (const Gauge& gauge : gauges) {
        if (opened.insert(gauge.name).second) out += fmt::format("# TYPE {} gauge\n", gauge.name);
        out += gauge.labels.empty() ? fmt::format("{} {}\n", gauge.name, gauge.value)
                                    : fmt::format("{}{{{}}} {}\n", gauge.name, gauge.labels, gauge.value);
    }
    return out;
}

}  // namespace elmo
