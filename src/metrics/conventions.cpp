#include "metrics/conventions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "elmo/error.h"
#include "elmo/messages.h"

namespace elmo {
namespace {

struct Model {
    double a, b;
};
constexpr Model kAmazon{0.6, 2.6}, kWikipedia{0.5, 0.4}, kOther{0.55, 1.5};

// Only letters and digits, lower case: "LF-WikiSeeAlso-320K" and "lf_wikiseealso320k" are one name.
std::string plain(const std::string& name) {
    std::string out;
    for (const unsigned char c : name)
        if (std::isalnum(c)) out += static_cast<char>(std::tolower(c));
    return out;
}

bool holds(const std::string& name, std::initializer_list<const char*> parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const char* part) { return name.find(part) != std::string::npos; });
}

bool has_label_texts(const std::string& name) {
    return name.rfind("lf", 0) == 0;
}

Model model_of(const std::string& name, const std::string& like) {
    if (holds(name, {"amazon"})) return kAmazon;
    if (like == "renee") return holds(name, {"wiki"}) ? kWikipedia : kOther;
    // The paper's code has 0.5 and 0.4 for its keywords set too, and Amazon's for what it does not know.
    if (like == "elmo") return holds(name, {"wiki", "paper2keywords"}) ? kWikipedia : kAmazon;
    return holds(name, {"wikipedia", "wiki500k", "wikilshtc"}) ? kWikipedia : kOther;
}

}  // namespace

const std::vector<std::string>& known_conventions() {
    static const std::vector<std::string> names = {"pyxclib", "renee", "elmo"};
    return names;
}

PropensityRule propensity_rule(const std::string& data_name, const std::string& like, double a, double b,
                               const std::string& counts) {
    const auto& known = known_conventions();
    if (!like.empty() && std::find(known.begin(), known.end(), like) == known.end())
        throw ConfigError(fmt::format("like: expected pyxclib, renee or elmo, found '{}'{}", quoted(like),
                                      did_you_mean(like, known)));
    if (counts != "auto" && counts != "plain" && counts != "augmented")
        throw ConfigError(
            fmt::format("propensity_counts: expected auto, plain or augmented, found '{}'", quoted(counts)));
    if ((a == -1) != (b == -1))
        throw ConfigError(
            fmt::format("propensity_a and propensity_b: expected both or neither, found {} and {}", a, b));
    const std::string name = plain(data_name);
    PropensityRule rule;
    if (a == -1) {
        const Model model = model_of(name, like);
        rule = {model.a, model.b,
                fmt::format("by the data set's name '{}'{}", quoted(data_name),
                            like.empty() ? "" : fmt::format(", as {} does", like)),
                false};
    } else {
        rule = {a, b, "given", false};
    }
    rule.augmented = counts == "augmented" ||
                     (counts == "auto" && (like == "renee" || like == "elmo") && has_label_texts(name));
    return rule;
}

bool filters(const std::string& data_name, const std::string& like) {
    return like != "elmo" || has_label_texts(plain(data_name));
}

}  // namespace elmo
