// Which propensities a score is made with: the field's projects differ in A and B, in what they count, and in
// when they filter. This file lists what each does, so that scores can be compared with theirs and reported
// with their convention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace elmo {

// Whose conventions: "" (ours), "pyxclib", "renee" or "elmo" (the code published with the paper).
const std::vector<std::string>& known_conventions();

struct PropensityRule {
    double a = 0, b = 0;
    std::string source;      // "given", "by the data set's name 'LF-AmazonTitles-131K'", ...
    bool augmented = false;  // counted on the training set with each label's text added as one more row
};

// a, b: -1 to take them from the name of the data set. counts: "auto", "plain" or "augmented"; auto is plain,
// or augmented if `like` names a project that trains on label texts and the name ("LF-...") shows that the
// set has them. ConfigError for an unknown `like` or `counts`, or if only one of a and b is given.
PropensityRule propensity_rule(const std::string& data_name, const std::string& like, double a, double b,
                               const std::string& counts);

// Whether `like` filters predictions on a data set of this name where it has a filter file.
bool filters(const std::string& data_name, const std::string& like);

}  // namespace elmo
