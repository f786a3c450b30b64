// Results as fields, and fields as JSON.
#include <gtest/gtest.h>

#include <limits>

#include "elmo/fields.h"
#include "elmo/memory.h"

namespace elmo {
namespace {

template <typename T>
std::string json_of(const T& value) {
    return to_json(FieldGroup{[&](auto&& visit) { visit("x", value); }});
}

TEST(Fields, EveryKindOfValueHasItsJson) {
    EXPECT_EQ(json_of(true), R"({"x":true})");
    EXPECT_EQ(json_of(nullptr), R"({"x":null})");
    EXPECT_EQ(json_of(std::int64_t{-7}), R"({"x":-7})");
    EXPECT_EQ(json_of(std::numeric_limits<std::int64_t>::min()), R"({"x":-9223372036854775808})");
    EXPECT_EQ(json_of(0.1), R"({"x":0.1})");
    EXPECT_EQ(json_of(3.0), R"({"x":3.0})");
    EXPECT_EQ(json_of(0.1f), R"({"x":0.1})");                      // not 0.10000000149011612
    EXPECT_EQ(json_of(1.0007542e-06f), R"({"x":1.0007542e-06})");  // not 1.0007542000000001e-06
    EXPECT_EQ(json_of(-12345.5f), R"({"x":-12345.5})");
    EXPECT_EQ(json_of(2.5e-4f), R"({"x":0.00025})");
    EXPECT_EQ(json_of(-0.0f), R"({"x":-0.0})");
    EXPECT_EQ(json_of(3e14f), R"({"x":300000000000000.0})");
    EXPECT_EQ(json_of(3e20f), R"({"x":3e+20})");
    EXPECT_EQ(json_of(std::numeric_limits<float>::infinity()), R"({"x":null})");
    EXPECT_EQ(json_of(std::numeric_limits<double>::quiet_NaN()), R"({"x":null})");
    EXPECT_EQ(json_of("plain"), R"({"x":"plain"})");
    EXPECT_EQ(json_of(std::string("a\"b\\c\n\x01")), R"({"x":"a\"b\\c\n\u0001"})");
    EXPECT_EQ(json_of(std::string("\u00fc")), "{\"x\":\"\u00fc\"}");
    EXPECT_EQ(json_of(std::string("\u00fc\n")), "{\"x\":\"\u00fc\\n\"}");
    EXPECT_EQ(json_of(std::string("a\xff")), "{\"x\":\"a\xef\xbf\xbd\"}");
    EXPECT_EQ(json_of(std::vector<std::string>{}), R"({"x":[]})");
    EXPECT_EQ(json_of(std::vector<std::string>{"[", "{"}), R"({"x":["[","{"]})");
    EXPECT_EQ(json_of(std::array{1.5, 2.5}), R"({"x":[1.5,2.5]})");
    EXPECT_EQ(json_of(FieldGroup{[](auto&&) {}}), R"({"x":{}})");
}

TEST(Fields, ResultsNestInTheOrderOfTheirFields) {
    MemoryReport report;
    report.segments = {{"head/weights", 10, true}, {"step", 2, false}};
    report.phases = {{"start", 10, {0}}};
    report.arena_bytes = 12;
    EXPECT_EQ(to_json(report),
              R"({"total_bytes":12,"arena_bytes":12,"mapped_bytes":0,"program_bytes":0,"host_bytes":0,)"
              R"("chunks":1,)"
              R"("recompute":"none","phases":[{"name":"start","bytes":10}],)"
              R"("segments":[{"name":"head/weights","bytes":10,"at_peak":true},)"
              R"({"name":"step","bytes":2,"at_peak":false}]})");
    std::vector<std::string> names;
    visit_fields(report.segments[0], [&](std::string_view name, const auto&) { names.emplace_back(name); });
    EXPECT_EQ(names, (std::vector<std::string>{"name", "bytes", "at_peak"}));
}

}  // namespace
}  // namespace elmo
