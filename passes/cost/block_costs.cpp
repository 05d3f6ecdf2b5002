// A buffer that one block writes and another reads takes its bytes from the one that writes it to the last that reads
// it:
//
//   forward of a   + h    backward of a   - h        as a lease of memory between two blocks of a micro-batch
#include "passes/cost/block_costs.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/kernel/kernel_scratch.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

class BlockReader {
 public:
  BlockReader(const Plan& plan, const Pipeline& pipeline, const CostModel& model)
      : plan_(plan), pipeline_(pipeline), model_(model), number_(plan.blocks.size(), -1) {}

  BlockCosts read() {
    add_blocks();
    add_reads();
    add_transfers();
    cut_mutual();
    add_memory();
    add_once();
    return std::move(made_);
  }

 private:
  PipelineBlock& block_of(size_t plan_block) {
    return made_.pipeline.problem.blocks[static_cast<size_t>(number_[plan_block])];
  }

  void add_blocks() {
    made_.pipeline.problem.limits.assign(static_cast<size_t>(plan_.world), kNoLimit);
    for (size_t b = 0; b < plan_.blocks.size(); ++b) {
      const Block& block = plan_.blocks[b];
      if (block.turn != Turn::MicroBatch) continue;
      const Pipeline::Block& of = pipeline_.blocks[b];
      number_[b] = static_cast<int>(made_.blocks.size());
      made_.blocks.push_back(static_cast<int>(b));
      made_.pipeline.stage.push_back(of.stage);
      made_.pipeline.kind.push_back(of.phase == Phase::Forward ? BlockKind::Forward
                                    : of.of_weights            ? BlockKind::Weight
                                                               : BlockKind::Backward);
      made_.pipeline.problem.blocks.push_back({ranks_of(block), time_of(block), 0, {}});
    }
  }

  const std::vector<int>& ranks_of(const Block& block) const { return plan_.places[block.place.index].ranks; }

  int64_t time_of(const Block& block) const {
    double slowest = 0;
    for (const int rank : ranks_of(block)) slowest = std::max(slowest, seconds_of(block.steps, rank));
    return nanoseconds(slowest);
  }

  static int64_t nanoseconds(double seconds) { return std::max<int64_t>(1, static_cast<int64_t>(seconds * 1e9)); }

  static bool is_move(const Step& step) {
    return std::holds_alternative<SendStep>(step.what) || std::holds_alternative<RecvStep>(step.what);
  }

  double seconds_of(const std::vector<Step>& steps, int rank) const {
    double seconds = 0;
    for (const Step& step : steps) {
      const auto bodies = bodies_of(step);
      double inside = 0;
      for (const std::vector<Step>* body : bodies) inside = std::max(inside, seconds_of(*body, rank));
      if (const auto* loop = std::get_if<ForStep>(&step.what)) inside *= loop->trips;
      if (const auto* loop = std::get_if<LoopStep>(&step.what))
        inside *= static_cast<double>(std::max<int64_t>(1, loop->max_trips));
      seconds += bodies.empty() && !is_move(step) ? model_.of(step, rank).seconds : inside;
    }
    return seconds;
  }

  /// Which blocks write and read each buffer.
  template <class Visit>
  void for_each_access(const Visit& visit) const {
    for (size_t b = 0; b < plan_.blocks.size(); ++b)
      if (number_[b] >= 0)
        for_each_step(plan_.blocks[b].steps, [&](const Step& step) {
          if (is_move(step)) return;
          for (const Access& access : step.accesses) visit(b, access);
        });
  }

  void add_after(size_t block, size_t earlier) {
    std::vector<int>& after = block_of(block).after;
    const int number = number_[earlier];
    if (block != earlier && std::find(after.begin(), after.end(), number) == after.end()) after.push_back(number);
  }

  /// Through memory of one place.
  void add_reads() {
    std::map<uint32_t, std::set<size_t>> writers;
    for_each_access([&](size_t block, const Access& access) {
      if (access.write && is_handed(access.buffer)) writers[access.buffer.index].insert(block);
    });
    for_each_access([&](size_t block, const Access& access) {
      if (access.write || !writers.contains(access.buffer.index)) return;
      for (const size_t writer : writers.at(access.buffer.index)) add_after(block, writer);
    });
    for (size_t b = 0; b < plan_.blocks.size(); ++b)  // a received value arrives in its block
      if (number_[b] >= 0)
        for (const Step& step : plan_.blocks[b].steps)
          if (const auto* recv = std::get_if<RecvStep>(&step.what)) {
            const BufferId to = plan_.transfers[static_cast<size_t>(recv->transfer)].to;
            for_each_access([&](size_t reader, const Access& access) {
              if (access.buffer == to && !access.write) add_after(reader, b);
            });
          }
  }

  /// A value of a micro-batch, without partial sums over all of them.
  bool is_handed(BufferId buffer) const {
    const Life life = plan_.buffer(buffer).life;
    return life == Life::MicroBatch || (plan_.micro_batches == 1 && life == Life::Run);
  }

  double seconds_of_recv(const Step& recv, const Block& block) const {
    double slowest = 0;
    for (const int rank : ranks_of(block)) slowest = std::max(slowest, model_.of(recv, rank).seconds);
    return slowest;
  }

  /// The sending block of each transfer.
  std::map<int, size_t> senders_of_transfers() const {
    std::map<int, size_t> senders;
    for (size_t b = 0; b < plan_.blocks.size(); ++b)
      for (const Step& step : plan_.blocks[b].steps)
        if (const auto* send = std::get_if<SendStep>(&step.what)) senders[send->transfer] = b;
    return senders;
  }

  void add_transfers() {
    std::map<std::pair<size_t, size_t>, double> times;  // by sending and receiving block
    const std::map<int, size_t> senders = senders_of_transfers();
    for (size_t b = 0; b < plan_.blocks.size(); ++b)
      for (const Step& step : plan_.blocks[b].steps) {
        const auto* recv = std::get_if<RecvStep>(&step.what);
        if (!recv || number_[b] < 0 || number_[senders.at(recv->transfer)] < 0) continue;
        times[{senders.at(recv->transfer), b}] += seconds_of_recv(step, plan_.blocks[b]);
      }
    std::map<std::pair<uint32_t, uint32_t>, int> links;
    for (const auto& [ends, seconds] : times) {
      const auto places = std::pair{plan_.blocks[ends.first].place.index, plan_.blocks[ends.second].place.index};
      const int link = links.emplace(places, static_cast<int>(links.size())).first->second;
      add_after(ends.second, ends.first);
      made_.pipeline.transfers.push_back({number_[ends.first], number_[ends.second], nanoseconds(seconds), link});
    }
  }

  /// Blocks that read each other wait while they run; messages between them take no time of their own.
  void cut_mutual() {
    order_within_stages(made_.pipeline);
    made_.mutual = cut_circles(made_.pipeline.problem);
    for (const PipelineEdge& edge : made_.mutual)
      std::erase_if(made_.pipeline.transfers,
                    [&](const PipelineTransfer& t) { return t.from == edge.from && t.to == edge.to; });
  }

  void add_memory() {
    const auto before = precedence_of(made_.pipeline.problem);
    std::map<uint32_t, std::set<size_t>> writers, users;
    for_each_access([&](size_t block, const Access& access) {
      if (!is_handed(access.buffer)) return;
      users[access.buffer.index].insert(block);
      if (access.write) writers[access.buffer.index].insert(block);
    });
    std::map<uint32_t, int64_t> handed;  // bytes of all instances, by place
    for (const auto& [buffer, blocks] : users) {
      const auto maker = writers.find(buffer);
      if (maker == writers.end() || maker->second.size() != 1 || blocks.size() < 2) continue;
      const size_t first = *maker->second.begin();
      size_t last = first;
      for (const size_t block : blocks)
        if (before[static_cast<size_t>(number_[last])][static_cast<size_t>(number_[block])]) last = block;
      const int64_t bytes = plan_.buffers[buffer].bytes;
      block_of(first).memory += bytes, block_of(last).memory -= bytes;
      handed[plan_.buffers[buffer].place.index] += bytes * plan_.buffers[buffer].depth;
    }
    count_others(handed);
  }

  void count_others(const std::map<uint32_t, int64_t>& handed) {
    made_.others.assign(static_cast<size_t>(plan_.world), 0);
    for (const Program& program : plan_.programs)
      for (const int rank : program.ranks) {
        int64_t& bytes = made_.others[static_cast<size_t>(rank)];
        bytes = needed_bytes(plan_, program);
        for (const auto& [place, own] : handed)
          if (plan_.places[place].holds(rank)) bytes -= own;
      }
  }

  /// A block that runs once waits for the blocks of its kind that write its operands, or send them.
  void add_once() {
    const std::map<int, size_t> senders = senders_of_transfers();
    std::map<size_t, int> numbers;              // by block of the Plan
    std::map<uint32_t, std::set<int>> writers;  // by buffer
    for (const OrderedBlock& turn : plan_.order) {
      const auto b = static_cast<size_t>(turn.block);
      const Block& block = plan_.blocks[b];
      if (block.turn == Turn::MicroBatch) continue;
      const int number = numbers[b] = static_cast<int>(made_.once.size());
      made_.once_blocks.push_back(turn.block);
      OnceBlock once = {ranks_of(block), time_of(block), block.turn == Turn::After, {}};
      std::map<int, int64_t> waits;
      for_each_step(block.steps, [&](const Step& step) {
        if (const auto* recv = std::get_if<RecvStep>(&step.what))
          if (const auto sender = numbers.find(senders.at(recv->transfer)); sender != numbers.end())
            waits[sender->second] += nanoseconds(seconds_of_recv(step, block));
        for (const Access& access : step.accesses)
          for (const int writer : writers[access.buffer.index])
            if (writer != number) waits.emplace(writer, 0);
        for (const Access& access : step.accesses)
          if (access.write) writers[access.buffer.index].insert(number);
      });
      for (const auto& [earlier, time] : waits) once.waits.push_back({earlier, time});
      made_.once.push_back(std::move(once));
    }
  }

  const Plan& plan_;
  const Pipeline& pipeline_;
  const CostModel& model_;
  std::vector<int> number_;  // in the problem, by block of the Plan; -1: it runs once
  BlockCosts made_;
};

}  // namespace

BlockCosts block_costs(const Plan& plan, const Pipeline& pipeline, const CostModel& model) {
  return BlockReader(plan, pipeline, model).read();
}

}  // namespace weftc
