// `elmo serve`: runs behind HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

struct ServeOptions {
    std::string host = "127.0.0.1";        // 0.0.0.0: every address of this machine
    int port = 8080;                       // 0: any that is free
    std::vector<std::string> tokens = {};  // a client must show one of these; empty: none is asked for
    std::int64_t connections = 1000;       // at once; more wait to be accepted
    std::int64_t queue = 4096;             // texts that may wait, per run
    std::int64_t max_texts = 1024;         // of a request
    std::int64_t max_body = 4 << 20;       // bytes of a request
    double deadline = 10;                  // seconds that a request may wait for its turn
    double read_time = 10;                 // seconds in which a request must arrive
    double idle_time = 60;                 // seconds that a connection may wait for its next request
    // Gets a line of JSON per request, without its texts; from any thread, one at a time.
    std::function<void(std::string_view)> log = {};
};

// Answers until it is stopped. The names of runs are those of their folders.
class ELMO_API Server {
  public:
    // Loads the runs and listens. Options used: those of Predictor; top and threshold are what a request that
    // says nothing gets. ConfigError if it cannot listen, if two runs have one name or if none is given.
    Server(const Context& context, const std::vector<std::string>& runs, const Config& config,
           const ServeOptions& options);
    ~Server();  // stops

    int port() const;
    // Takes new checkpoints (and calibrations) of the runs, if there are any, and returns how many. A request
    // is answered by the checkpoint that was there when it came. The server also looks by itself, every
    // second.
    int reload();
    // Ends: nothing new is accepted, every request that has begun to arrive is answered.
    void stop();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
