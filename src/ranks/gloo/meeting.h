// Where the ranks of a launch without MPI meet: all connect to the first rank at MASTER_ADDR, by a port from
// MASTER_PORT on, and gather what others need to know. Gloo's connections are made from that; nothing else
// goes this way.
#pragma once

#include <string>
#include <vector>

namespace elmo {

struct MeetingPlace {
    int rank = 0, size = 1;
    std::string address;   // of the first rank: a name, or an IPv4 address
    int port = 0;          // the first of kPorts that it may take
    std::string run;       // of this launch: others are turned away
    double seconds = 300;  // until all must be here
};

class Meeting {
  public:
    static constexpr int kPorts = 16;

    // A collective. Error, with who is missing, when not all ranks come.
    explicit Meeting(const MeetingPlace& place);
    ~Meeting();
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

    // Every rank's bytes, in the order of ranks.
    std::vector<std::string> gather(const std::string& mine);
    // The IPv4 address by which the other ranks reach this one.
    const std::string& own_address() const { return own_address_; }

  private:
    void receive_all();
    void reach_first();
    void find_own_address();

    MeetingPlace place_;
    std::vector<int> sockets_;  // of the first rank: by rank, its own is -1; of another: one, to the first
    std::string own_address_;
};

}  // namespace elmo
