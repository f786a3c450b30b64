// What the server counts, as Prometheus reads it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace elmo {

// Counts of values up to bounds that ascend.
class Histogram {
  public:
    explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
    void add(double value);
    // The lines of a metric; `labels` as in {a="b"} without its brackets.
    std::string lines(const std::string& name, const std::string& labels) const;

  private:
    std::span<const double> bounds_;
    std::vector<std::int64_t> counts_;  // the last: above all bounds
    double sum_ = 0;
};

// Where something stands now.
struct Gauge {
    std::string name, labels;
    double value = 0;
};

class Metrics {
  public:
    void request(const std::string& route, int status, double seconds, std::int64_t texts);
    void batch(const std::string& model, std::int64_t texts);
    void reloaded(const std::string& model);

    std::string page(const std::vector<Gauge>& gauges) const;

  private:
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, int>, std::int64_t> requests_;
    std::map<std::string, Histogram> seconds_;  // by route
    std::map<std::string, Histogram> batches_;  // by model
    std::map<std::string, std::int64_t> reloads_;
    std::int64_t texts_ = 0;
};

// A value of a label, with quotes.
std::string metric_text(const std::string& text);

}  // namespace elmo
