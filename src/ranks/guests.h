// Who has connected to a socket that listens and has not said yet who they are: ranks, and strangers. They
// are heard side by side, so that a silent one holds up nobody.
#pragma once

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ranks/sockets.h"

namespace elmo {

class Guests {
  public:
    enum class Verdict { kListen, kTurnAway, kTake };

    // Closes the listener when it ends. A guest may say `most_bytes`; what comes after them is left in its
    // socket.
    Guests(int listener, std::size_t most_bytes) : listener_(listener), most_bytes_(most_bytes) {}
    ~Guests() {
        for (const Guest& guest : guests_) ::close(guest.socket);
        ::close(listener_);
    }
    Guests(const Guests&) = delete;
    Guests& operator=(const Guests&) = delete;

    // Waits up to a tenth of a second for somebody to come or to say more. judge(socket, said) decides about
    // each who did, with all that they have said; a socket that it takes is its own.
    template <class Judge>
    void hear(const Judge& judge) {
        std::vector<pollfd> ready = {{listener_, POLLIN, 0}};
        for (const Guest& guest : guests_) ready.push_back({guest.socket, POLLIN, 0});
        ::poll(ready.data(), ready.size(), 100);
        for (std::size_t i = 0; i < guests_.size(); ++i) {
            Guest& guest = guests_[i];
            const Verdict verdict = ready[i + 1].revents != 0     ? heard(guest, judge)
                                    : seconds_now() > guest.until ? Verdict::kTurnAway
                                                                  : Verdict::kListen;
            if (verdict == Verdict::kTurnAway) ::close(guest.socket);
            if (verdict != Verdict::kListen) guest.socket = -1;
        }
        std::erase_if(guests_, [](const Guest& guest) { return guest.socket < 0; });
        if (ready.front().revents == 0) return;
        const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (socket < 0) return;
        if (guests_.size() == kMost) {  // a rank speaks at once: who has been silent longest is none
            ::close(guests_.front().socket);
            guests_.erase(guests_.begin());
        }
        guests_.push_back({socket, seconds_now() + kSeconds, {}});
    }

  private:
    static constexpr std::size_t kMost = 256;
    static constexpr double kSeconds = 5;

    struct Guest {
        int socket;
        double until;
        std::string said;
    };

    template <class Judge>
    Verdict heard(Guest& guest, const Judge& judge) {
        char bytes[64];
        const std::size_t room = std::min(sizeof bytes, most_bytes_ - guest.said.size());
        const ssize_t got = ::recv(guest.socket, bytes, room, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Verdict::kListen;
        if (got <= 0) return Verdict::kTurnAway;
        guest.said.append(bytes, static_cast<std::size_t>(got));
        const Verdict verdict = judge(guest.socket, std::string_view(guest.said));
        return verdict == Verdict::kListen && guest.said.size() == most_bytes_ ? Verdict::kTurnAway : verdict;
    }

    int listener_;
    std::size_t most_bytes_;
    std::vector<Guest> guests_;  // in the order in which they came
};

}  // namespace elmo
