// A tiny run, trained once for all tests of a program, and a server of it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "elmo/error.h"
#include "elmo/serve.h"
#include "elmo/train.h"
#include "serve/client.h"
#include "train/tiny_data.h"

namespace elmo::test {

struct TinyRuns {
    TinyRuns() {
        write_tiny_data(temp / "data");
        config = tiny_config(temp);
        config.device = "cpu";
        config.steps = 60;
        config.out = temp / "bag";
        train(quiet(), config);
        Config other;
        other.data = config.data;
        other.cache = config.cache;
        other.encoder = "linear";
        other.validation = "0.1";
        other.threads = 1;
        other.device = "cpu";
        other.out = temp / "linear";
        train(quiet(), other);
    }
    TempFolder temp;
    Config config;
};

inline const TinyRuns& tiny_runs() {
    static const TinyRuns runs;
    return runs;
}

class Serve : public ::testing::Test {
  protected:
    static std::string bag() { return tiny_runs().temp / "bag"; }
    static std::string linear() { return tiny_runs().temp / "linear"; }
    static Config config() {
        Config config;
        config.device = "cpu";
        config.threads = 1;
        return config;
    }
    void start(const std::vector<std::string>& runs = {bag()}) {
        options.port = 0;
        options.log = [this](std::string_view line) { log.emplace_back(line); };
        server = std::make_unique<Server>(quiet(), runs, config(), options);
    }
    Client client() { return Client(server->port()); }

    ServeOptions options;
    std::vector<std::string> log;
    std::unique_ptr<Server> server;
    const std::string text = "the thing " + word_of(5) + " beside " + word_of(1) + " number 0";
};

}  // namespace elmo::test
