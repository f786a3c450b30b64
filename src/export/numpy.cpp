// Label vectors for NumPy: labels.npy holds a row per label, in 16 bits where those hold every weight.
#include <fmt/format.h>

#include "export/exported_run.h"
#include "io/atomic_file.h"
#include "numerics/bf16.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// Whether IEEE half precision holds every number of the format.
bool fits_half(const HeadFormat& format) {
    return format.dtype == DType::kE4M3 || format.dtype == DType::kE3M4;
}

// Version 1.0 of the format: a header of ASCII, padded so that the data are aligned to 64 bytes.
std::string npy_header(bool half, std::int64_t rows, std::int64_t cols) {
    std::string text = fmt::format("{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   half ? 2 : 4, rows, cols);
    const std::size_t before = 10;  // magic, version, length
    text.append(63 - (before + text.size()) % 64, ' ');
    text += '\n';
    std::string header("\x93NUMPY\x01\x00", 8);
    header += static_cast<char>(text.size() & 0xff);
    header += static_cast<char>(text.size() >> 8);
    return header + text;
}

constexpr const char* kNumpyReadme = R"md(# Label vectors of {name}

`labels.npy`: {labels} label vectors of width {width}, {type}, exactly the run's weights. `labels.txt`: the label of each row, one per line{numbers}. There are no biases: the score of a label is the product of its vector and the text vector, and its raw probability is the sigmoid of the score.

```python
{import}import numpy as np

vectors = np.load("labels.npy").astype(np.float32)
with open("labels.txt", encoding="utf-8", newline="\n") as file:
    names = [line.rstrip("\n") for line in file]
{scores}
for row in scores:
    for label in np.argsort(-row)[:5]:
        print(names[label], row[label])
```

{texts}
{notes})md";

constexpr const char* kTextScores = R"(texts = ["a text to label"]
scores = elmo.Run(RUN).embed(texts) @ vectors.T)";
constexpr const char* kVectorScores = R"(texts = np.load(TEXTS)  # a row of numbers per text
scores = texts @ vectors.T)";

// Where text vectors come from.
std::string text_vectors_of(const ExportedRun& run) {
    if (run.checkpoint.takes_vectors())
        return fmt::format(
            "`TEXTS` holds vectors of width {} of the encoder that the head was trained behind.",
            run.encoder.width);
    return fmt::format(
        "`RUN` is the folder of the run. Text vectors also come from `/v1/embed` of `elmo serve`{}.",
        run.encoder.is_bag() ? ""
                             : ", or from the encoder alone, which `elmo export --to "
                               "sentence-transformers` writes");
}

}  // namespace

void export_numpy(const Context& context, ExportedRun& run, const fs::path& folder, ExportResult& result) {
    const bool half = fits_half(run.head.format);
    AtomicFile file(folder / "labels.npy");
    file.write(npy_header(half, result.labels, result.width));
    std::vector<Fp16> halves;
    read_label_vectors(context, run, [&](std::span<const float> values) {
        if (!half) return file.write(std::as_bytes(values));
        halves.clear();
        for (const float value : values) halves.push_back(to_fp16(value));
        file.write(std::as_bytes(std::span<const Fp16>(halves)));
    });
    file.commit();
    write_label_names(run, folder / "labels.txt");
    if (run.head.format.dtype == DType::kE4M3)
        result.notes.emplace_back(
            "elmo rounds text vectors to E4M3 before it multiplies them with fp8 weights: scores differ a "
            "little");
    const bool named = !run.checkpoint.label_names().empty(), has_texts = !run.checkpoint.takes_vectors();
    write_file_atomically(
        folder / "README.md",
        fmt::format(fmt::runtime(kNumpyReadme), fmt::arg("name", run.name), fmt::arg("labels", result.labels),
                    fmt::arg("width", result.width), fmt::arg("type", half ? "float16" : "float32"),
                    fmt::arg("numbers", named ? "" : " (its number: the run has no names)"),
                    fmt::arg("import", has_texts ? "import elmo\n" : ""),
                    fmt::arg("scores", has_texts ? kTextScores : kVectorScores),
                    fmt::arg("texts", text_vectors_of(run)), fmt::arg("notes", notes_text(result))));
}

}  // namespace elmo
