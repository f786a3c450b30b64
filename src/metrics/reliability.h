// Probabilities against what was right, in tenths: the points of a calibration curve. Grows with nothing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace elmo {

struct ReliabilityBin {
    double from = 0, to = 0;  // probabilities; the last bin holds 1 too
    double mean = 0;          // of the probabilities
    double right = 0;         // share of 1
    std::int64_t pairs = 0;
};

class Reliability {
  public:
    // probability: from 0 to 1.
    void add(double probability, bool right);
    // Those that hold anything, ascending.
    std::vector<ReliabilityBin> bins() const;

  private:
    struct Sum {
        double probability = 0;
        std::int64_t right = 0, pairs = 0;
    };
    std::array<Sum, 10> sums_;
};

}  // namespace elmo
