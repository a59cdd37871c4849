#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>

namespace rocmforge {

/// Gives sequences their turns: of one priority, clients come by turns, and a client's own in order of arrival. A client's
/// next sequence gets the turn behind its last one, but none that has gone by: who comes late does not catch up, and does
/// not wait behind all that another has sent before. (Start-time fair queueing, Goyal, Vin and Cheng 1996, of sequences.)
///
/// Nothing waits for ever: each client has one sequence in a turn, and a turn that has begun is joined by no older one.
class FairOrder {
 public:
  /// The turn of a new sequence. Without memory for it all stays as it was.
  std::int64_t enter(std::int32_t priority, std::uint64_t client) {
    Lane& lane = lanes_[priority];
    Own& own = own_of(lane, priority, client);
    own.last_turn = std::max(lane.turn, own.last_turn + 1);
    ++own.unfinished;
    return own.last_turn;
  }

  /// A sequence starts. All of this turn and of those before it have begun, or come beside it.
  void started(std::int32_t priority, std::int64_t turn) {
    Lane& lane = lanes_[priority];
    lane.turn = std::max(lane.turn, turn);
  }

  /// A sequence that was given a turn has ended.
  void leave(std::int32_t priority, std::uint64_t client) {
    const auto lane = lanes_.find(priority);
    const auto own = lane->second.clients.find(client);
    if (--own->second.unfinished > 0) {
      return;
    }
    lane->second.clients.erase(own);
    if (lane->second.clients.empty()) {
      lanes_.erase(lane);
    }
  }

 private:
  struct Own {
    std::int64_t last_turn = 0;
    std::int64_t unfinished = 0;
  };
  /// Of one priority.
  struct Lane {
    std::int64_t turn = 0;  ///< has begun
    std::map<std::uint64_t, Own> clients;
  };
  Own& own_of(Lane& lane, std::int32_t priority, std::uint64_t client) {
    try {
      return lane.clients[client];
    } catch (const std::bad_alloc&) {
      if (lane.clients.empty()) {
        lanes_.erase(priority);
      }
      throw;
    }
  }

  std::map<std::int32_t, Lane> lanes_;  ///< where something is unfinished
};

}  // namespace rocmforge
