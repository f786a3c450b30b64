// Ranks over Gloo, for launchers without MPI: torchrun and others that set RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT. Point-to-point messages, called from one thread at a time. Gloo never adds numbers here
// (docs/numerics.md).
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "elmo/error.h"
#include "ranks/gloo/meeting.h"
#include "ranks/plugin.h"

namespace elmo {
namespace {

// Messages wait as long as they must: the lifeline notices ranks that are silent.
constexpr auto kForEver = std::chrono::hours(24 * 365);

std::string variable(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
}

int number(const char* name, int usual) {
    const std::string text = variable(name);
    return text.empty() ? usual : std::atoi(text.c_str());
}

MeetingPlace place_of_launch() {
    MeetingPlace place;
    place.rank = number("RANK", 0);
    place.size = number("WORLD_SIZE", 1);
    place.address = variable("MASTER_ADDR");
    // torchrun's own store may be at MASTER_PORT already.
    place.port = number("MASTER_PORT", 0) + (variable("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0);
    place.run = variable("TORCHELASTIC_RUN_ID") + "/" + variable("TORCHELASTIC_RESTART_COUNT");
    // For tests of what happens when ranks do not come.
    place.seconds = number("ELMO_MEETING_SECONDS", static_cast<int>(place.seconds));
    return place;
}

// All ranks set a value at the same time, under keys of their own, and then read each other's: who they are,
// and where they listen.
class MeetingStore : public gloo::rendezvous::Store {
  public:
    explicit MeetingStore(Meeting& meeting) : meeting_(meeting) {}

    void set(const std::string& key, const std::vector<char>& data) override {
        const auto keys = meeting_.gather(key);
        const auto all = meeting_.gather(std::string(data.begin(), data.end()));
        for (std::size_t r = 0; r < all.size(); ++r)
            values_[keys[r]] = std::vector<char>(all[r].begin(), all[r].end());
    }
    std::vector<char> get(const std::string& key) override {
        const auto found = values_.find(key);
        if (found == values_.end()) throw Error("Gloo: nobody has set '" + key + "'");
        return found->second;
    }
    void wait(const std::vector<std::string>&) override {}
    void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {}

  private:
    Meeting& meeting_;
    std::map<std::string, std::vector<char>> values_;
};

class GlooRanks final : public PluginRanks {
  public:
    GlooRanks() {
        const MeetingPlace place = place_of_launch();
        rank_ = place.rank;
        size_ = place.size;
        local_rank_ = number("LOCAL_RANK", 0);
        local_size_ = number("LOCAL_WORLD_SIZE", 1);
        sent_.resize(static_cast<std::size_t>(size_));
        received_.resize(sent_.size());
        Meeting meeting(place);
        gloo::transport::tcp::attr at;
        at.iface = variable("GLOO_SOCKET_IFNAME");
        if (at.iface.empty()) at.hostname = meeting.own_address();
        try {
            auto device = gloo::transport::tcp::CreateDevice(at);
            context_ = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
            context_->setTimeout(std::chrono::seconds(static_cast<int>(place.seconds)));
            MeetingStore store(meeting);
            context_->connectFullMesh(store, device);
        } catch (const Error&) {
            throw;
        } catch (const std::exception& error) {
            throw Error(std::string("Gloo: connecting the ranks: ") + error.what());
        }
    }

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    int local_rank() const override { return local_rank_; }
    int local_size() const override { return local_size_; }

    void exchange(std::span<const Outgoing> send, std::span<const Incoming> receive) override {
        std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> coming, going;
        try {
            // A message has a slot of its own, the next of its two ranks.
            for (const Incoming& message : receive) {
                if (message.bytes.empty()) continue;
                coming.push_back(context_->createUnboundBuffer(message.bytes.data(), message.bytes.size()));
                coming.back()->recv(message.from, received_[static_cast<std::size_t>(message.from)]++);
            }
            for (const Outgoing& message : send) {
                if (message.bytes.empty()) continue;
                going.push_back(context_->createUnboundBuffer(const_cast<std::byte*>(message.bytes.data()),
                                                              message.bytes.size()));
                going.back()->send(message.to, sent_[static_cast<std::size_t>(message.to)]++);
            }
            for (const auto& message : coming) message->waitRecv(kForEver);
            for (const auto& message : going) message->waitSend(kForEver);
        } catch (const std::exception& error) {
            // A connection closed: the lifeline knows who has gone and ends this process with that.
            std::this_thread::sleep_for(std::chrono::seconds(5));
            throw Error(std::string("Gloo: exchanging with the other ranks: ") + error.what());
        }
    }

    void barrier() override {
        std::byte token{};
        std::vector<std::byte> tokens(static_cast<std::size_t>(size_));
        std::vector<Outgoing> out;
        std::vector<Incoming> in;
        if (rank_ != 0) {
            out.push_back({0, std::span(&token, 1)});
            exchange(out, {});
            in.push_back({0, std::span(&token, 1)});
            return exchange({}, in);
        }
        for (int r = 1; r < size_; ++r) {
            in.push_back({r, std::span(&tokens[static_cast<std::size_t>(r)], 1)});
            out.push_back({r, std::span(&token, 1)});
        }
        exchange({}, in);
        exchange(out, {});
    }

    bool any_thread() const override { return true; }

    void finish() override { context_->closeConnections(); }
    std::string host() const override {
        char name[256] = {};
        ::gethostname(name, sizeof name - 1);
        return name;
    }
    std::string describe() const override { return "Gloo"; }

  private:
    int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
    std::shared_ptr<gloo::rendezvous::Context> context_;
    std::vector<std::uint64_t> sent_, received_;  // messages so far, by rank
};

}  // namespace
}  // namespace elmo

extern "C" __attribute__((visibility("default"))) const char* elmo_gloo_plugin(const char* interface,
                                                                               elmo::PluginRanks** made) {
    if (std::string_view(interface) != ELMO_RANKS_INTERFACE) return ELMO_RANKS_INTERFACE;
    *made = new elmo::GlooRanks();
    return nullptr;
}
