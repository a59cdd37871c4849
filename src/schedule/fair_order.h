#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>

namespace rocmforge {

/// Orders the sequences of one priority: clients take turns, and each client's sequences keep their order of arrival. A
/// client's next sequence gets the turn after its last one, but no turn that has already begun. So a client that starts
/// later gets no earlier turns, and does not wait for everything that another client sent before. (Start-time fair queueing,
/// Goyal, Vin and Cheng 1996.)
///
/// No sequence waits for ever: each client has one sequence in a turn, and no sequence joins a turn before the one that has
/// begun.
class FairOrder {
 public:
  /// The turn of a new sequence. If memory runs out, nothing changes.
  std::int64_t enter(std::int32_t priority, std::uint64_t client) {
    Lane& lane = lanes_[priority];
    Own& own = own_of(lane, priority, client);
    own.last_turn = std::max(lane.turn, own.last_turn + 1);
    ++own.unfinished;
    return own.last_turn;
  }

  /// A sequence starts. All sequences of this turn and of earlier turns have started, or start with it.
  void started(std::int32_t priority, std::int64_t turn) {
    Lane& lane = lanes_[priority];
    lane.turn = std::max(lane.turn, turn);
  }

  /// A sequence with a turn has ended.
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
  /// The state of one priority.
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

  std::map<std::int32_t, Lane> lanes_;  ///< of priorities with unfinished sequences
};

}  // namespace rocmforge
