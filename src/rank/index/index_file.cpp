#include "rank/index/index_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/json_text.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "io/checksum.h"
#include "io/links.h"
#include "run/calibration_file.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kKind = "elmo-index-2";
constexpr const char *kCentre = "centre", *kProject = "project", *kCodes = "codes", *kRest = "rest",
                     *kScales = "scales", *kBiases = "biases";
constexpr std::int64_t kMostDims = 4096;

// Calls use(name, dtype, shape, view) for each part of the file.
template <class AnySketch, class Use>
void for_parts(AnySketch& sketch, Use&& use) {
    use(kCentre, "F32", std::vector{sketch.width}, sketch.centre);
    use(kProject, "F32", std::vector{sketch.dims, sketch.width}, sketch.project);
    use(kCodes, "U8",
        std::vector{sketch.groups(), sketch.first_bytes() / 2, LabelSketch::kGroup, std::int64_t{2}},
        sketch.codes);
    use(kRest, "U8", std::vector{sketch.labels, sketch.rest_bytes()}, sketch.rest);
    use(kScales, "F32", std::vector{sketch.labels}, sketch.scales);
    use(kBiases, "F32", std::vector{sketch.labels}, sketch.biases);
}

// Of the report and of every part's bytes.
std::string checksum(const LabelSketch& sketch, const std::string& report) {
    std::uint64_t hash = hash64(report);
    for_parts(sketch, [&](const char*, const char*, const std::vector<std::int64_t>&, const auto& view) {
        const std::string_view bytes(reinterpret_cast<const char*>(view.data()), view.size_bytes());
        hash = hash64(bytes, hash);
    });
    return hash_text(hash);
}

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
    throw DataError(
        fmt::format("{}: {}; make it again with 'elmo index', or search exactly", file.string(), why));
}

std::string text_of(const SafeTensors& file, const fs::path& path, const char* key) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
        refuse(path, fmt::format("expected an index with \"{}\", found something else", key));
    return found->second;
}

SearchIndex parse_report(const fs::path& path, const std::string& text) {
    const nlohmann::json json = parse_json(text, path.string());
    SearchIndex report;
    bool sound = json.is_object();
    visit_numbers(report, [&](const char* key, auto& value) {
        sound = sound && json.contains(key) && get_exact(json.at(key), value);
    });
    for (const double share : {report.recall_at_1, report.recall_at_5, report.recall_at_10})
        sound = sound && share >= 0 && share <= 1;
    for (const double ms : {report.exact_ms, report.approximate_ms}) sound = sound && std::isfinite(ms);
    sound = sound && report.texts > 0 && report.dims > 0 && report.dims <= kMostDims && report.candidates > 0;
    if (!sound) refuse(path, "expected the report that 'elmo index' writes, found something else");
    return report;
}

}  // namespace

fs::path index_file(const fs::path& folder) {
    return beside_checkpoint(folder, "index", "safetensors");
}

void write_index(const Checkpoint& checkpoint, const LabelSketch& sketch, SearchIndex& report) {
    const fs::path path = index_file(checkpoint.folder());
    refuse_link(path);
    nlohmann::ordered_json json;
    visit_numbers(report, [&](const char* key, const auto& value) { json[key] = value; });
    const std::string text = json.dump();
    std::vector<TensorSpec> tensors;
    for_parts(sketch,
              [&](const char* name, const char* dtype, const std::vector<std::int64_t>& shape, const auto&) {
                  tensors.push_back({name, dtype, shape});
              });
    SafeTensorsWriter writer(path, tensors,
                             {{"kind", kKind},
                              {"manifest_xxh64", checkpoint.manifest_hash()},
                              {"report", text},
                              {"xxh64", checksum(sketch, text)}});
    for_parts(sketch, [&](const char* name, const char*, const std::vector<std::int64_t>&, const auto& view) {
        writer.write(name, view);
    });
    writer.commit();
    report.bytes = static_cast<std::int64_t>(fs::file_size(path));
}

StoredIndex read_index(const Checkpoint& checkpoint, std::int64_t width) {
    const fs::path path = index_file(checkpoint.folder());
    refuse_link(path);
    std::error_code error;
    if (!fs::exists(path, error))
        throw DataError(fmt::format(
            "{}: expected an index for --search approximate, found none; 'elmo index{}' makes it",
            path.string(), checkpoint.folder().filename() == "last" ? " RUN --checkpoint last" : ""));
    const auto file = std::make_shared<SafeTensors>(SafeTensors::open(path));
    if (text_of(*file, path, "kind") != kKind)
        refuse(path, fmt::format("expected an index of kind {}, found '{}'", kKind,
                                 quoted(text_of(*file, path, "kind"))));
    if (text_of(*file, path, "manifest_xxh64") != checkpoint.manifest_hash())
        refuse(path,
               fmt::format("it was made for other weights than those in {}", checkpoint.folder().string()));
    const std::string report = text_of(*file, path, "report");
    StoredIndex index;
    index.report = parse_report(path, report);
    index.report.bytes = static_cast<std::int64_t>(fs::file_size(path));
    if (index.report.labels != checkpoint.state().labels || index.report.width != width)
        refuse(path, fmt::format("expected {} labels and width {}, found {} and {}",
                                 checkpoint.state().labels, width, index.report.labels, index.report.width));
    LabelSketch& sketch = index.sketch;
    sketch.labels = index.report.labels;
    sketch.width = index.report.width;
    sketch.dims = index.report.dims;
    sketch.owner = file;
    for_parts(sketch, [&](const char* name, const char* dtype, const std::vector<std::int64_t>& shape,
                          auto& view) {
        using Element = typename std::remove_reference_t<decltype(view)>::element_type;
        const TensorInfo* tensor = file->find(name);
        if (tensor == nullptr || tensor->dtype != dtype || tensor->shape != shape)
            refuse(path, fmt::format(
                             "expected tensor '{}' of {} [{}], found {}", name, dtype, fmt::join(shape, ", "),
                             tensor == nullptr ? "none" : tensor->dtype + " " + tensor->shape_text()));
        if (reinterpret_cast<std::uintptr_t>(tensor->data.data()) % alignof(Element) != 0)
            refuse(path, fmt::format("tensor '{}' is not aligned to its elements", name));
        view = {reinterpret_cast<Element*>(tensor->data.data()), tensor->data.size() / sizeof(Element)};
    });
    const std::string found = checksum(sketch, report), said = text_of(*file, path, "xxh64");
    if (found != said)
        refuse(path, fmt::format("expected checksum {}, found {}: the file is damaged", quoted(said), found));
    return index;
}

}  // namespace elmo
