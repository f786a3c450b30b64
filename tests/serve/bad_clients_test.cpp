// Clients that are wrong, slow, gone or too many: each gets one clear answer, and the server goes on.
#include <atomic>
#include <chrono>
#include <thread>

#include "serve/served.h"

namespace elmo {
namespace {

using namespace test;

class BadClients : public Serve {
  protected:
    void expect_alive() {
        const Reply reply = client().post("/v1/predict", R"({"text":"x"})");
        EXPECT_EQ(reply.status, 200) << reply.body;
    }
};

TEST_F(BadClients, EveryWrongFieldIsNamed) {
    start({bag()});
    struct Case {
        const char* path;
        std::string body;
        const char* field;
        const char* message;
    };
    const std::string deep = std::string(100, '[') + std::string(100, ']') + "}";
    const std::vector<Case> cases = {
        {"/v1/predict", "", "", "found nothing"},
        {"/v1/predict", "{", "", "expected JSON"},
        {"/v1/predict", R"({"text":"x"} x)", "", "expected JSON"},
        {"/v1/predict", "[]", "", "found a list"},
        {"/v1/predict", "3", "", "found a whole number"},
        {"/v1/predict", "{\"text\":\"\xff\"}", "", "expected UTF-8"},
        {"/v1/predict", R"({"text":"\ud800"})", "", "expected JSON"},
        {"/v1/predict", R"({"texts":)" + deep, "", "levels of JSON"},
        {"/v1/predict", "{}", "texts", "missing"},
        {"/v1/predict", R"({"text":"a","texts":["b"]})", "text", "found both"},
        {"/v1/predict", R"({"text":3})", "text", "expected a text, found a whole number"},
        {"/v1/predict", R"({"text":null})", "text", "found null"},
        {"/v1/predict", R"({"texts":"a"})", "texts", "expected a list"},
        {"/v1/predict", R"({"texts":["a",{}]})", "texts[1]", "found an object"},
        {"/v1/predict", R"({"texts":["a","b","c","d"]})", "texts", "expected up to 3 elements"},
        {"/v1/predict", R"({"text":"a","tap":3})", "tap", "did you mean 'top'"},
        {"/v1/predict", R"({"text":"a","top":0})", "top", "from 1 to 100, found 0"},
        {"/v1/predict", R"({"text":"a","top":1.5})", "top", "expected a whole number"},
        {"/v1/predict", R"({"text":"a","top":18446744073709551615})", "top", "a larger one"},
        {"/v1/predict", R"({"text":"a","top":1e400})", "", "expected JSON"},
        {"/v1/predict", R"({"text":"a","threshold":"high"})", "threshold", "expected a number"},
        {"/v1/predict", R"({"text":"a","threshold":1.5})", "threshold", "from 0 to 1"},
        {"/v1/predict", R"({"text":"a","threshold":-1})", "threshold", "needs a calibrated run"},
        {"/v1/predict", R"({"text":"a","labels":[]})", "labels", "found none"},
        {"/v1/predict", R"({"text":"a","labels":["kind 1","none"]})", "labels[1]", "found 'none'"},
        {"/v1/predict", R"({"text":"a","labels":[37]})", "labels[0]", "from 0 to 36"},
        {"/v1/predict", R"({"text":"a","labels":[1.5]})", "labels[0]", "name or the number"},
        {"/v1/predict", R"({"text":"a","without":["kind 99"]})", "without[0]", "found 'kind 99'"},
        {"/v1/predict", R"({"text":"a","labels":["1"],"without":[1]})", "labels", "found none"},
        {"/v1/predict", R"({"text":"a","model":7})", "model", "expected a text"},
        {"/v1/predict", R"({"text":"a","text":"b"})", "text", "once, found it twice"},
        {"/v1/predict", R"({"top":1,"text":"a","t\u006fp":2})", "top", "once, found it twice"},
        {"/v2/models/bag/infer", R"({"inputs":[{"data":["a"],"data":["b"]}]})", "inputs[0].data",
         "once, found it twice"},
        {"/v1/embed", R"({"text":"a","top":3})", "top", "no such field"},
        {"/v1/explain", R"({"texts":["a"]})", "texts", "no such field"},
        {"/v1/explain", R"({"top":1})", "text", "missing"},
        {"/v2/models/bag/infer", R"({"inputs":[]})", "inputs", "found none"},
        {"/v2/models/bag/infer", R"({"inputs":[{"datatype":"FP32"}]})", "inputs[0].datatype",
         "expected BYTES"},
        {"/v2/models/bag/infer", R"({"inputs":[{"shape":[9]}]})", "inputs[0].shape[0]", "from 0 to 3"},
        {"/v2/models/bag/infer", R"({"inputs":[{"shape":[2],"data":["a"]}]})", "inputs[0].shape", "1 texts"},
        {"/v2/models/bag/infer", R"({"inputs":[{"data":["a"]}],"parameters":{"threshold":7}})",
         "parameters.threshold", "from 0 to 1"},
    };
    options.max_texts = 3;
    start();
    Client one = client();  // all on one connection: none of them ends it
    for (const Case& c : cases) {
        const Reply reply = one.post(c.path, c.body);
        EXPECT_EQ(reply.status, 400) << c.body;
        EXPECT_EQ(reply.field(), c.field) << c.body << reply.body;
        EXPECT_NE(reply.error().find(c.message), std::string::npos) << c.body << reply.body;
    }
    EXPECT_EQ(one.post("/v1/predict", R"({"text":"x"})").status, 200);
}

TEST_F(BadClients, AddressesThatAreWrongAreNamed) {
    start();
    EXPECT_EQ(client().get("/v1/labels?limit=-1").field(), "limit");
    EXPECT_EQ(client().get("/v1/labels?limit=1001").field(), "limit");
    EXPECT_EQ(client().get("/v1/labels?query=%ff").field(), "query");
    EXPECT_EQ(client().get("/v1/labels?model=none").field(), "model");
    const Reply misspelt = client().get("/v1/labels?limits=3");
    EXPECT_EQ(misspelt.status, 400);
    EXPECT_EQ(misspelt.field(), "limits");
    EXPECT_NE(misspelt.error().find("did you mean 'limit'?"), std::string::npos) << misspelt.body;
    EXPECT_EQ(client().get("/v1/labels?limit=3&limit=4").field(), "limit");
    EXPECT_EQ(client().get("/v1/labels?limit=3&&").status, 200);
    const Reply in_query = client().post("/v1/predict?top=3", R"({"text":"x"})");
    EXPECT_EQ(in_query.field(), "top");
    EXPECT_NE(in_query.error().find("JSON body"), std::string::npos) << in_query.body;
    EXPECT_EQ(client().get("/?from=a+bookmark").status, 200);
    const Reply nowhere = client().get("/v1/nothing");
    EXPECT_EQ(nowhere.status, 404);
    EXPECT_EQ(nowhere.body.find("\"field\""), std::string::npos) << nowhere.body;
    EXPECT_EQ(client().get("/v2/models/none").field(), "model");
    EXPECT_EQ(client().get("/../etc/passwd").status, 404);
    EXPECT_EQ(client().get("*").status, 404);
    EXPECT_EQ(client().get("/v2/models/%ff").status, 400);
    const Reply wrong = client().get("/v1/predict");
    EXPECT_EQ(wrong.status, 405);
    EXPECT_NE(wrong.head.find("Allow: POST"), std::string::npos);
    Client head = client();
    head.send("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(head.receive(true).status, 200);
    EXPECT_EQ(head.get("/healthz").status, 200);
}

TEST_F(BadClients, WhatIsNotHttpIsRefusedAndCloses) {
    start();
    for (const char* bytes :
         {"hello\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n", "\x16\x03\x01\x02\x01\x01\r\n\r\n",
          "POST /v1/predict HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
          "POST /v1/predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
        Client one = client();
        one.send(bytes);
        EXPECT_EQ(one.receive().status, 400) << bytes;
        one.end_sending();
        EXPECT_TRUE(one.is_closed());
    }
    Client loud = client();
    loud.send("GET / HTTP/1.1\r\nX: " + std::string(1 << 20, 'a'));
    EXPECT_EQ(loud.receive().status, 431);
    expect_alive();
}

TEST_F(BadClients, BodiesHaveALimit) {
    options.max_body = 10000;
    start();
    Client one = client();
    one.send("POST /v1/predict HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n");
    const Reply reply = one.receive();
    EXPECT_EQ(reply.status, 413);
    EXPECT_EQ(reply.field(), "body");
    Client chunked = client();
    chunked.send("POST /v1/predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n" +
                 std::string(0x4000, ' '));
    EXPECT_EQ(chunked.receive().status, 413);
    const std::string most = R"({"text":")" + std::string(9000, 'a') + R"("})";
    EXPECT_EQ(client().post("/v1/predict", most).status, 200);
    // Without a length, in pieces.
    Client pieces = client();
    pieces.send("POST /v1/predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"text\":\r\n");
    pieces.send("4\r\n\"a\"}\r\n0\r\n\r\n");
    EXPECT_EQ(pieces.receive().status, 200);
    // A client that asks before it sends.
    Client polite = client();
    polite.send("POST /v1/predict HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 12\r\n\r\n");
    EXPECT_EQ(polite.receive().status, 100);
    polite.send(R"({"text":"a"})");
    EXPECT_EQ(polite.receive().status, 200);
}

TEST_F(BadClients, SlowRequestsEnd) {
    options.read_time = 0.05;
    start();
    Client header = client(), body = client();
    header.send("POST /v1/pre");
    body.send("POST /v1/predict HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
    EXPECT_EQ(header.receive().status, 408);
    EXPECT_EQ(body.receive().status, 408);
    expect_alive();
}

TEST_F(BadClients, WaitingConnectionsEnd) {
    options.idle_time = 0.05;
    start();
    Client silent = client();
    EXPECT_TRUE(silent.is_closed());
    Client used = client();
    EXPECT_EQ(used.get("/healthz").status, 200);
    EXPECT_TRUE(used.is_closed());
    expect_alive();
}

TEST_F(BadClients, HalfClosedConnectionsAreAnswered) {
    start();
    Client one = client();
    one.send(Client::request("/v1/predict", R"({"text":"a"})"));
    one.end_sending();
    EXPECT_EQ(one.receive().status, 200);
    EXPECT_TRUE(one.is_closed());
    Client cut = client();
    cut.send("POST /v1/predict HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
    cut.end_sending();
    EXPECT_TRUE(cut.is_closed());
    { client().send(Client::request("/v1/predict", R"({"text":"a"})")); }  // gone before the answer
    expect_alive();
}

TEST_F(BadClients, RequestsMayFollowEachOtherAtOnce) {
    start();
    Client one = client();
    std::string several;
    for (int i = 0; i < 5; ++i) several += Client::request("/v1/predict", R"({"text":"a"})");
    one.send(several);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(one.receive().status, 200);
}

TEST_F(BadClients, SilentConnectionsMakeRoomForOthers) {
    options.connections = 50;
    start();
    std::vector<Client> silent;
    for (int i = 0; i < 200; ++i) silent.push_back(client());
    for (int i = 0; i < 3; ++i) expect_alive();
    const std::string metrics = client().get("/metrics").body;
    const std::size_t at = metrics.find("\nelmo_connections ");
    ASSERT_NE(at, std::string::npos);
    EXPECT_LE(std::stoi(metrics.substr(at + 18)), 50);
}

// Each waits for its turn: none is closed before its request had time to come.
TEST_F(BadClients, MoreClientsThanConnectionsAreAllAnswered) {
    options.connections = 4;
    start();
    std::atomic<int> answered = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i)
        threads.emplace_back([&] {
            for (int j = 0; j < 40; ++j) {
                const auto begin = std::chrono::steady_clock::now();
                Client one = client();
                one.send("POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n");
                one.send(R"({"text":"a"})");
                const bool late = std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(400);
                answered += one.receive().status == 200 || late;  // a machine may stand still
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(answered, 16 * 40);
}

TEST_F(BadClients, AFullQueueAndALateRequestAreSaid) {
    options.queue = 0;
    start();
    const Reply full = client().post("/v1/predict", R"({"text":"a"})");
    EXPECT_EQ(full.status, 429);
    EXPECT_NE(full.head.find("Retry-After: 1"), std::string::npos);
    EXPECT_FALSE(full.error().empty());
    options.queue = 10;
    options.deadline = 0;
    start();
    const Reply late = client().post("/v1/predict", R"({"text":"a"})");
    EXPECT_EQ(late.status, 503);
    EXPECT_NE(late.head.find("Retry-After: 1"), std::string::npos);
}

TEST_F(BadClients, TokensAreAskedFor) {
    options.tokens = {"one", "two"};
    start();
    EXPECT_EQ(client().post("/v1/predict", R"({"text":"a"})").status, 401);
    EXPECT_EQ(client().get("/metrics").status, 401);
    for (const char* wrong : {"on", "onee", "", "two one", "Two"})
        EXPECT_EQ(client().get("/v1/models", fmt::format("Authorization: Bearer {}\r\n", wrong)).status, 401);
    EXPECT_EQ(client().get("/v1/models", "Authorization: Basic two\r\n").status, 401);
    EXPECT_EQ(client().get("/v1/models", "Authorization: Bearer two\r\n").status, 200);
    EXPECT_EQ(client().get("/healthz").status, 200);
    EXPECT_EQ(client().get("/").status, 200);
    options.tokens = {"a b"};
    EXPECT_THROW(start(), ConfigError);
}

TEST_F(BadClients, AnotherSitesNameIsNotThisMachines) {
    start();
    for (const char* host : {"localhost", "localhost:80", "127.0.0.1:1", "[::1]:8080", "[::1]"}) {
        Client one = client();
        one.send(fmt::format("GET /v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", host));
        EXPECT_EQ(one.receive().status, 200) << host;
    }
    // Names that others may give to this machine's address.
    for (const char* host :
         {"example.org", "127.example.org", "127.0.0.1.example.org:8080", "127.", "localhost.com"}) {
        Client one = client();
        one.send(fmt::format("GET /v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", host));
        EXPECT_EQ(one.receive().status, 421) << host;
    }
}

// A browser says where a page comes from that sends a request.
TEST_F(BadClients, PagesOfOtherSitesCauseNoWork) {
    start();
    const std::string body = R"({"text":"x"})";
    const Reply other = client().post("/v1/predict", body, "Sec-Fetch-Site: cross-site\r\n");
    EXPECT_EQ(other.status, 403) << other.body;
    EXPECT_EQ(client().get("/v1/models", "Sec-Fetch-Site: cross-site\r\n").status, 403);
    for (const char* site : {"same-origin", "same-site", "none"})
        EXPECT_EQ(client().post("/v1/predict", body, fmt::format("Sec-Fetch-Site: {}\r\n", site)).status,
                  200);
    for (const char* origin : {"http://evil.example", "https://evil.example:8080", "null"})
        EXPECT_EQ(client().post("/v1/predict", body, fmt::format("Origin: {}\r\n", origin)).status, 403);
    for (const char* origin : {"http://localhost:3000", "http://localhost"})
        EXPECT_EQ(client().post("/v1/predict", body, fmt::format("Origin: {}\r\n", origin)).status, 200);
    EXPECT_EQ(client().get("/", "Sec-Fetch-Site: cross-site\r\n").status, 200);  // somebody follows a link
    options.tokens = {"one"};  // then a proxy may stand before it, for any site
    start();
    EXPECT_EQ(client()
                  .post("/v1/predict", body, "Authorization: Bearer one\r\nSec-Fetch-Site: cross-site\r\n")
                  .status,
              200);
}

// Who shows no token is turned away before the body: room for bodies is for those who may ask.
TEST_F(BadClients, WithoutATokenNoBodyIsWaitedFor) {
    options.tokens = {"one"};
    start();
    std::vector<Client> strangers;
    for (int i = 0; i < 100; ++i) {
        strangers.push_back(client());
        strangers.back().send("POST /v1/predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    }
    for (Client& stranger : strangers) EXPECT_EQ(stranger.receive().status, 401);
    const Reply reply = client().post("/v1/predict", R"({"text":"x"})", "Authorization: Bearer one\r\n");
    EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST_F(BadClients, WrongOptionsAreNamed) {
    EXPECT_THROW(start({}), ConfigError);
    EXPECT_THROW(start({"/nowhere"}), DataError);
    start();
    ServeOptions second = options;
    second.port = server->port();
    const std::string message = message_of<ConfigError>([&] { Server(quiet(), {bag()}, config(), second); });
    EXPECT_NE(message.find("cannot listen"), std::string::npos);
    options.host = "no.such.host.invalid";
    EXPECT_NE(message_of<ConfigError>([&] { start(); }).find("host: expected"), std::string::npos);
}

}  // namespace
}  // namespace elmo
