#include "ranks/lifeline_messages.h"

#include <gtest/gtest.h>

#include "elmo/error.h"

namespace elmo {
namespace {

using Kind = LifelineMessage::Kind;

TEST(LifelineMessages, ComeWholeInWhateverPieces) {
    const std::string sent = bytes_of({Kind::kAlive}) + bytes_of({Kind::kFailed, 130, "rank 1 fell\nover"}) +
                             bytes_of({Kind::kDone}) + bytes_of({Kind::kEnd, 2});
    for (std::size_t piece = 1; piece <= sent.size(); ++piece) {
        std::vector<LifelineMessage> came;
        std::string received;
        for (std::size_t at = 0; at < sent.size(); at += piece) {
            received += sent.substr(at, piece);
            while (auto message = take_message(received)) came.push_back(std::move(*message));
        }
        ASSERT_EQ(came.size(), 4u);
        EXPECT_EQ(came[0].kind, Kind::kAlive);
        EXPECT_EQ(came[1].status, 130);
        EXPECT_EQ(came[1].text, "rank 1 fell\nover");
        EXPECT_EQ(came[2].kind, Kind::kDone);
        EXPECT_EQ(came[3].status, 2);
        EXPECT_EQ(received, "");
    }
}

TEST(LifelineMessages, WhatNoRankSendsIsAnError) {
    std::string other = "GET / HTTP/1.1";
    EXPECT_THROW(take_message(other), Error);
    std::string too_long = "F\x01\xff\xff\xff\x7f";
    EXPECT_THROW(take_message(too_long), Error);
    const LifelineMessage longest{Kind::kFailed, 1, std::string(1 << 20, 'x')};
    std::string cut = bytes_of(longest);
    EXPECT_EQ(take_message(cut)->text.size(), std::size_t{kLongestLifelineText});
}

}  // namespace
}  // namespace elmo
