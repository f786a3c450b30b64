// A tiny data set in a temporary folder: each text names its labels by words, so it can be learnt.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "elmo/config.h"
#include "elmo/train.h"
#include "quiet.h"

namespace elmo::test {

class TempFolder {
  public:
    TempFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "elmo-train-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        path_ = pattern;
    }
    ~TempFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    const std::filesystem::path& path() const { return path_; }
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

inline void write_text(const std::string& file, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << content;
}

inline std::string read_text(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

struct TinyShape {
    int train_rows = 150, test_rows = 40, labels = 37;
    bool with_names = true;
    bool with_labels = true;  // rows carry labels
    bool with_filter = false;
};

// A separate word for each label.
inline std::string word_of(int label) {
    return {"bdfglmnprstz"[label % 12], "aeiou"[label / 12 % 5], "xkv"[label / 60 % 3], 'o'};
}

// Row i has labels i % L and (7 i + 3) % L; its text names both. The filter takes the first label of each
// row.
inline void write_tiny_data(const std::string& folder, const TinyShape& shape = {}) {
    const auto part = [&](const char* name, int rows, int shift) {
        std::string texts, labels = fmt::format("{} {}\n", rows, shape.labels), filter;
        for (int i = 0; i < rows; ++i) {
            const int a = (i + shift) % shape.labels, b = (7 * (i + shift) + 3) % shape.labels;
            texts += fmt::format("the thing {} beside {} number {}\n", word_of(a), word_of(b), i % 5);
            if (shape.with_labels)
                labels += a == b ? fmt::format("{}:1\n", a)
                                 : fmt::format("{}:1 {}:1\n", std::min(a, b), std::max(a, b));
            else
                labels += "\n";
            filter += fmt::format("{} {}\n", i, a);
        }
        write_text(fmt::format("{}/{}_X.txt", folder, name), texts);
        write_text(fmt::format("{}/{}_X_Y.txt", folder, name), labels);
        if (shape.with_filter) write_text(fmt::format("{}/{}_filter_labels.txt", folder, name), filter);
    };
    part("trn", shape.train_rows, 0);
    part("tst", shape.test_rows, 11);
    std::string names;
    for (int l = 0; l < shape.labels; ++l) names += fmt::format("kind {}\n", l);
    if (shape.with_names) write_text(folder + "/Y.txt", names);
}

// A small transformer without weights: config.json in a folder.
inline void write_tiny_bert(const std::string& folder, int layers) {
    write_text(folder + "/config.json",
               fmt::format(
                   R"({{"model_type":"bert","vocab_size":400,"hidden_size":16,"num_hidden_layers":{},
                "num_attention_heads":2,"intermediate_size":32,"max_position_embeddings":8,"type_vocab_size":2,
                "layer_norm_eps":1e-12,"hidden_dropout_prob":0.1,"attention_probs_dropout_prob":0.1,
                "hidden_act":"gelu"}})",
                   layers));
}

inline Config tiny_config(const TempFolder& temp) {
    Config config;
    config.data = temp / "data";
    config.cache = temp / "cache";
    config.out = temp / "run";
    config.width = 16;
    config.vocab_size = 300;
    config.batch_size = 16;
    config.steps = 20;
    config.log_every = 5;
    config.validation = "0.1";
    config.dropout = 0.1;
    config.encoder_lr = 0.01;
    config.head_lr = 0.02;
    config.eval_every = 10;
    config.augment = "none";
    config.threads = 1;
    return config;
}

// A folder's encoder, which has a width of its own.
inline void set_encoder(Config& config, const std::string& folder) {
    config.encoder = folder;
    config.width = Config().width;
}

// Every file of a folder by name.
inline std::vector<std::pair<std::string, std::string>> files_of(const std::filesystem::path& folder) {
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        files.emplace_back(entry.path().filename().string(), read_text(entry.path()));
    std::sort(files.begin(), files.end());
    return files;
}

// What an expression throws, or "".
template <class Exception, class Body>
std::string message_of(const Body& body) {
    try {
        body();
    } catch (const Exception& error) {
        return error.what();
    }
    return "";
}

// A run that is stopped before its first step: a checkpoint to continue from.
inline TrainResult train_no_step(const Config& config) {
    std::atomic<bool> stop{false};
    return train(stopping_before_the_first_step(stop), config);
}

}  // namespace elmo::test
