// A load client for `elmo serve`: connections that ask all the time, or at a rate, and what they saw.
//
//   g++ -O2 -std=c++20 -pthread bench/serve_load.cpp -o serve_load
//   serve_load PORT TEXTS.txt [connections=64] [texts=1] [seconds=10] [warmup=0] [rate=0] [top=5] [threads=1]
//       [spin=0]
//
// Each request asks /v1/predict on 127.0.0.1 for the labels of the next `texts` lines of TEXTS.txt. With a
// rate (requests per second over all connections) the times of requests are fixed ahead, evenly over all
// threads, and a latency counts from the time at which its request was due: a server that stalls cannot hide
// it. "late" is what the client itself adds: from when a request was due, or from when a connection was free
// for it if that is later, to when it was sent. The clock starts when all connections are open; what was due
// within `warmup` seconds is asked but not counted. Its threads take cores from the server where both run on
// one machine ("client_cpu" is how many): give them cores of their own with taskset, and spin=1,
// which does not sleep, so that waking up is not measured. Prints one line of JSON.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Connection {
    int socket = -1;
    Clock::time_point due, free;
    std::string got;
};

std::string json_text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out + "\"";
}

std::vector<std::string> make_requests(const char* file, std::size_t texts, int top) {
    std::ifstream in(file);
    std::vector<std::string> lines, requests;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    if (lines.empty()) std::exit((std::fprintf(stderr, "%s: no texts\n", file), 2));
    for (std::size_t i = 0; i < std::max<std::size_t>(256, lines.size() / texts); ++i) {
        std::string body = "{\"top\":" + std::to_string(top) + ",\"texts\":[";
        for (std::size_t j = 0; j < texts; ++j)
            body += (j > 0 ? "," : "") + json_text(lines[(i * texts + j) % lines.size()]);
        body += "]}";
        requests.push_back("POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body);
        if (requests.size() >= 4096) break;
    }
    return requests;
}

int open_connection(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        std::exit((std::perror("connect"), 1));
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return socket;
}

// The status of a complete answer at the front, which is removed; 0 while it is not complete.
int take_answer(std::string& got) {
    const std::size_t head = got.find("\r\n\r\n");
    if (head == std::string::npos) return 0;
    const std::size_t at = got.find("Content-Length: ");
    const std::size_t length = at < head ? std::strtoul(got.c_str() + at + 16, nullptr, 10) : 0;
    if (got.size() < head + 4 + length) return 0;
    const int status = std::atoi(got.c_str() + 9);
    got.erase(0, head + 4 + length);
    return status;
}

// What one thread is to do, and what it saw.
struct Share {
    int port = 0;
    std::size_t connections = 0, first_request = 0, failed = 0;
    double rate = 0, first_due = 0, seconds = 0, warmup = 0;  // first_due: seconds, with a rate
    bool spin = false;
    std::vector<double> milliseconds, late;
    Clock::time_point began, last;
};

double milliseconds_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

void ask(const std::vector<std::string>& requests, std::barrier<>& all_open, Share& share) {
    std::vector<Connection> connections(share.connections);
    const int poll = ::epoll_create1(0);
    std::deque<std::size_t> idle;
    for (std::size_t i = 0; i < connections.size(); ++i) {
        connections[i].socket = open_connection(share.port);
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = i;
        ::epoll_ctl(poll, EPOLL_CTL_ADD, connections[i].socket, &event);
        idle.push_back(i);
    }
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // nanoseconds: else timers come 50 us late
    all_open.arrive_and_wait();
    const auto began = share.began = share.last = Clock::now();
    const auto after = [&](double seconds) {
        return began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    };
    const auto end = after(share.seconds), counts_from = after(share.warmup);
    const double rate = share.rate;
    std::size_t sent = 0, busy = 0;
    const auto due_of = [&](std::size_t request) {
        return after(share.first_due + static_cast<double>(request) / rate);
    };
    for (;;) {
        auto now = Clock::now();
        while (!idle.empty() && now < end && (rate == 0 || due_of(sent) <= now)) {
            Connection& c = connections[idle.front()];
            idle.pop_front();
            c.due = rate == 0 ? now : due_of(sent);
            if (c.due >= counts_from)
                share.late.push_back(milliseconds_between(std::max(c.due, c.free), now));
            const std::string& request = requests[(share.first_request + sent++) % requests.size()];
            if (::send(c.socket, request.data(), request.size(), MSG_NOSIGNAL) !=
                static_cast<ssize_t>(request.size()))
                std::exit((std::perror("send"), 1));
            ++busy;
            now = Clock::now();
        }
        if (now >= end && busy == 0) return;
        timespec wait{};
        const bool by_clock = rate > 0 && now < end && !idle.empty();
        if (by_clock && !share.spin) {
            const auto left = std::max(
                std::chrono::nanoseconds(0),
                std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(due_of(sent), end) - now));
            wait.tv_sec = left.count() / 1'000'000'000;
            wait.tv_nsec = left.count() % 1'000'000'000;
        }
        epoll_event events[64];
        const int ready = ::epoll_pwait2(poll, events, 64, by_clock || share.spin ? &wait : nullptr, nullptr);
        for (int e = 0; e < ready; ++e) {
            Connection& c = connections[events[e].data.u64];
            char block[1 << 16];
            const auto bytes = ::recv(c.socket, block, sizeof block, 0);
            if (bytes <= 0) std::exit((std::fprintf(stderr, "the server closed a connection\n"), 1));
            c.got.append(block, static_cast<std::size_t>(bytes));
            const int status = take_answer(c.got);
            if (status == 0) continue;
            if (status != 200) ++share.failed;
            c.free = share.last = Clock::now();
            if (c.due >= counts_from) share.milliseconds.push_back(milliseconds_between(c.due, c.free));
            --busy;
            idle.push_back(events[e].data.u64);
        }
    }
}

double cpu_seconds() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return std::fprintf(stderr, "usage: serve_load PORT TEXTS.txt [name=value ...]\n"), 2;
    std::map<std::string, double> settings = {{"connections", 64}, {"texts", 1}, {"seconds", 10},
                                              {"warmup", 0},       {"rate", 0},  {"top", 5},
                                              {"threads", 1},      {"spin", 0}};
    for (int i = 3; i < argc; ++i)
        if (char* equals = std::strchr(argv[i], '='))
            settings[std::string(argv[i], equals)] = std::atof(equals + 1);
    const auto requests = make_requests(argv[2], static_cast<std::size_t>(settings["texts"]),
                                        static_cast<int>(settings["top"]));
    const auto all = static_cast<std::size_t>(settings["connections"]);
    const std::size_t threads =
        std::min(std::max<std::size_t>(1, static_cast<std::size_t>(settings["threads"])), all);
    const double cpu_before = cpu_seconds();
    std::vector<Share> shares(threads);
    std::vector<std::thread> running;
    std::barrier<> all_open(static_cast<std::ptrdiff_t>(threads));
    for (std::size_t t = 0; t < threads; ++t) {
        shares[t].port = std::atoi(argv[1]);
        shares[t].connections = all * (t + 1) / threads - all * t / threads;
        shares[t].first_request = requests.size() * t / threads;
        shares[t].rate =
            settings["rate"] * static_cast<double>(shares[t].connections) / static_cast<double>(all);
        if (settings["rate"] > 0) shares[t].first_due = static_cast<double>(t) / settings["rate"];
        shares[t].spin = settings["spin"] != 0;
        shares[t].warmup = settings["warmup"];
        shares[t].seconds = settings["warmup"] + settings["seconds"];
        running.emplace_back([&, t] { ask(requests, all_open, shares[t]); });
    }
    for (std::thread& thread : running) thread.join();
    std::size_t failed = 0;
    std::vector<double> milliseconds, late;
    double seconds = 0;
    for (const Share& share : shares) {
        failed += share.failed;
        milliseconds.insert(milliseconds.end(), share.milliseconds.begin(), share.milliseconds.end());
        late.insert(late.end(), share.late.begin(), share.late.end());
        seconds = std::max(seconds, milliseconds_between(share.began, share.last) / 1000 - share.warmup);
    }
    if (milliseconds.empty()) return std::fprintf(stderr, "no answer counts\n"), 1;
    std::sort(milliseconds.begin(), milliseconds.end());
    std::sort(late.begin(), late.end());
    const auto share_of = [](const std::vector<double>& sorted, double s) {
        return sorted[std::min(sorted.size() - 1,
                               static_cast<std::size_t>(s * static_cast<double>(sorted.size())))];
    };
    const auto share = [&](double s) { return share_of(milliseconds, s); };
    const auto answered = static_cast<double>(milliseconds.size());
    std::printf(
        "{\"requests_per_second\":%.1f,\"texts_per_second\":%.1f,\"failed\":%zu,\"min_ms\":%.3f,\"p10_ms\":%."
        "3f,\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f,\"late_p99_ms\":"
        "%."
        "3f,\"late_max_ms\":%.3f,\"client_cpu\":%.2f}\n",
        answered / seconds, answered * settings["texts"] / seconds, failed, milliseconds.front(), share(0.1),
        share(0.5), share(0.9), share(0.99), share(0.999), milliseconds.back(), share_of(late, 0.99),
        late.back(), (cpu_seconds() - cpu_before) / (seconds + settings["warmup"]));
}
