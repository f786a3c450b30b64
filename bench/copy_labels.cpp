// Makes a run with more labels, to measure search among very many: the labels of a run, and copies of them
// with noise.
//
//   g++ -O2 -std=c++20 -pthread bench/copy_labels.cpp -o copy_labels
//   copy_labels RUN/best NEW/best LABELS [NOISE=0.3]
//
// A copy differs from its label by NOISE times what sets the label apart from the mean of all, in a random
// direction. The head must be bf16, in one file. A copy is called by its number and
// the name of its label.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace fs = std::filesystem;

namespace {

std::uint64_t xxh64(const std::string& data) {
    constexpr std::uint64_t p1 = 0x9e3779b185ebca87u, p2 = 0xc2b2ae3d27d4eb4fu, p3 = 0x165667b19e3779f9u,
                            p4 = 0x85ebca77c2b2ae63u, p5 = 0x27d4eb2f165667c5u;
    const char* at = data.data();
    const char* const end = at + data.size();
    const auto word = [](const char* from) {
        std::uint64_t value = 0;
        std::memcpy(&value, from, 8);
        return value;
    };
    const auto round = [&](std::uint64_t acc, std::uint64_t in) { return std::rotl(acc + in * p2, 31) * p1; };
    std::uint64_t hash = p5;
    if (data.size() >= 32) {
        std::uint64_t v[4] = {p1 + p2, p2, 0, 0 - p1};
        for (; end - at >= 32; at += 32)
            for (int i = 0; i < 4; ++i) v[i] = round(v[i], word(at + 8 * i));
        hash = std::rotl(v[0], 1) + std::rotl(v[1], 7) + std::rotl(v[2], 12) + std::rotl(v[3], 18);
        for (const std::uint64_t lane : v) hash = (hash ^ round(0, lane)) * p1 + p4;
    }
    hash += data.size();
    for (; end - at >= 8; at += 8) hash = std::rotl(hash ^ round(0, word(at)), 27) * p1 + p4;
    if (end - at >= 4) {
        std::uint32_t value = 0;
        std::memcpy(&value, at, 4);
        hash = std::rotl(hash ^ value * p1, 23) * p2 + p3;
        at += 4;
    }
    for (; at < end; ++at) hash = std::rotl(hash ^ static_cast<unsigned char>(*at) * p5, 11) * p1;
    hash = (hash ^ hash >> 33) * p2;
    hash = (hash ^ hash >> 29) * p3;
    return hash ^ hash >> 32;
}

std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) std::exit((std::fprintf(stderr, "%s: cannot be read\n", file.c_str()), 1));
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
}

std::string hex(std::uint64_t value) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
}

float number(std::uint16_t bf16) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}
std::uint16_t bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A safetensors file of one tensor: its header, padded to eight bytes, then the values.
template <typename T>
std::string tensor_file(std::string header, const std::vector<T>& values) {
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    std::string file(reinterpret_cast<const char*>(&length), 8);
    file += header;
    file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return file;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return std::fprintf(stderr, "usage: copy_labels RUN/best NEW/best LABELS [NOISE]\n"), 2;
    const fs::path from = argv[1], to = argv[2];
    const std::int64_t labels = std::atoll(argv[3]);
    const double noise = argc > 4 ? std::atof(argv[4]) : 0.3;
    fs::create_directories(to);
    const std::string head_name = "head-00001-of-00001.safetensors", head = read(from / head_name);
    std::uint64_t length = 0;
    std::memcpy(&length, head.data(), 8);
    std::smatch found;
    const std::string header = head.substr(8, length);
    if (!std::regex_search(header, found, std::regex(R"re("dtype":"BF16","shape":\[(\d+),(\d+)\])re")))
        return std::fprintf(stderr, "%s: expected a bf16 head, found %s\n", argv[1], header.c_str()), 1;
    const std::int64_t rows = std::stoll(found[1]), width = std::stoll(found[2]);
    std::vector<std::uint16_t> weights(static_cast<std::size_t>(labels * width));
    const std::size_t stored = std::min(weights.size(), static_cast<std::size_t>(rows * width));
    std::memcpy(weights.data(), head.data() + 8 + length, stored * 2);
    std::vector<double> mean(static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < stored; ++i)
        mean[i % mean.size()] += number(weights[i]) / static_cast<double>(rows);
    const auto copy = [&](std::int64_t label) {
        std::mt19937_64 random(static_cast<std::uint64_t>(label));
        std::normal_distribution<float> normal;
        const auto* own = &weights[static_cast<std::size_t>(label % rows * width)];
        double apart = 0;
        for (std::int64_t d = 0; d < width; ++d)
            apart += std::pow(number(own[d]) - mean[static_cast<std::size_t>(d)], 2);
        const auto scale = static_cast<float>(noise * std::sqrt(apart / static_cast<double>(width)));
        for (std::int64_t d = 0; d < width; ++d)
            weights[static_cast<std::size_t>(label * width + d)] =
                bf16(number(own[d]) + scale * normal(random));
    };
    const std::int64_t threads = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> running;
    for (std::int64_t t = 0; t < threads; ++t)
        running.emplace_back([&, t] {
            for (std::int64_t label = rows + t; label < labels; label += threads) copy(label);
        });
    for (std::thread& thread : running) thread.join();
    std::string names = read(from / "labels.txt");
    std::vector<std::string> name;
    std::stringstream lines(names);
    for (std::string line; std::getline(lines, line);) name.push_back(line);
    for (std::int64_t label = rows; label < labels; ++label)
        names += std::to_string(label) + " " + name[static_cast<std::size_t>(label % rows)] + "\n";
    std::string manifest = read(from / "manifest.json");
    const auto write = [&](const std::string& file, const std::string& content) {
        std::ofstream(to / file, std::ios::binary) << content;
        const std::regex entry("(\"name\": \"" + file +
                               "\",\\s*\"bytes\": )\\d+(,\\s*\"xxh64\": \")[0-9a-f]+");
        manifest = std::regex_replace(manifest, entry,
                                      "$01" + std::to_string(content.size()) + "$02" + hex(xxh64(content)));
    };
    for (const auto& file : fs::directory_iterator(from))
        if (file.path().filename() != head_name)
            fs::copy_file(file, to / file.path().filename(), fs::copy_options::overwrite_existing);
    const std::string shape = std::to_string(labels) + "," + std::to_string(width);
    write(head_name,
          tensor_file("{\"__metadata__\":{\"first_row\":\"0\",\"format\":\"bf16\",\"labels\":\"" +
                          std::to_string(labels) + "\"},\"weight\":{\"dtype\":\"BF16\",\"shape\":[" + shape +
                          "],\"data_offsets\":[0," + std::to_string(weights.size() * 2) + "]}}",
                      weights));
    write("label_counts.safetensors",
          tensor_file("{\"counts\":{\"dtype\":\"I64\",\"shape\":[" + std::to_string(labels) +
                          "],\"data_offsets\":[0," + std::to_string(8 * labels) + "]}}",
                      std::vector<std::int64_t>(static_cast<std::size_t>(labels), 1)));
    write("labels.txt", names);
    std::string state = std::regex_replace(read(from / "state.json"), std::regex("\"labels\": \\d+"),
                                           "\"labels\": " + std::to_string(labels));
    state = std::regex_replace(state, std::regex("\"names_hash\": \"[0-9a-f]+\""),
                               "\"names_hash\": \"" + hex(xxh64(names)) + "\"");
    write("state.json", state);
    std::ofstream(to / "manifest.json") << manifest;
}
