// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "engine/memory_plan.h"

namespace braid {
namespace {

EngineOptions completed(const ModelSpec& spec, EngineOptions options) {
  SchedulerLimits& steps = options.steps;
  CHECK(options.context > 0 && steps.sequences > 0 && steps.chunk > 0, "context={} sequences={} chunk={}",
        options.context, steps.sequences, steps.chunk);
  steps.step_tokens = std::max<int64_t>(steps.step_tokens, steps.sequences);
  if (options.state.slots == 0)
    options.state = plan_state(spec.needs, {.context = options.context, .sequences = steps.sequences});
  if (StatePool::pages_for(options.context) > options.state.pages)
    fail(ErrorKind::Resource, "a context of {} tokens needs {} pages of state, there are {}", options.context,
         StatePool::pages_for(options.context), options.state.pages);
  return options;
}

StepRunner::Options runner_options(const EngineOptions& options) {
  return {.limits = {.tokens = options.steps.step_tokens,
                     .sequences = options.steps.sequences,
                     .heads = options.steps.sequences,
                     .context = options.context},
          .poison = options.poison};
}

uint64_t system_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

Engine::Engine(const LoadedModel& model, EngineOptions options)
    : model_(model),
      options_(completed(model.spec, std::move(options))),
      pool_(model.executor, model.spec.needs, options_.state),
      runner_(model, pool_, runner_options(options_)),
      sampler_(model.executor, model.spec.vocabulary, options_.steps.sequences, options_.allowed),
      seed_(options_.seed ? *options_.seed : system_seed()) {
  if (options_.poison)
    for (int need = 0; need < static_cast<int>(pool_.needs().size()); ++need)
      model_.executor.submit(Fill{.out = pool_.array({need}), .byte = 0xFF});
}

std::vector<int32_t> Engine::stop_tokens_of(const Request& request) const {
  std::vector<int32_t> tokens = request.stop_tokens;
  if (!request.ignore_end) tokens.insert(tokens.end(), options_.end_tokens.begin(), options_.end_tokens.end());
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

RequestId Engine::submit(Request request) {
  check_request(request, model_.spec.vocabulary);
  if (std::ssize(request.tokens) > options_.context)
    fail("the prompt has {} tokens, the context holds {}", request.tokens.size(), options_.context);
  if (options_.max_waiting && std::cmp_greater_equal(load().waiting, *options_.max_waiting))
    fail(ErrorKind::Resource, "{} requests wait already", *options_.max_waiting);
  const RequestId id = ++last_id_;
  const auto random = philox({static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32), 0, 0}, seed_);
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->key = request.sampling.seed.value_or(uint64_t{random[0]} << 32 | random[1]);
  sequence->stop_tokens = stop_tokens_of(request);
  sequence->history = TokenHistory(request.sampling, request.tokens);
  sequence->prompt = std::ssize(request.tokens);
  sequence->tokens = std::move(request.tokens);
  sequence->request = std::move(request);
  sequences_.push_back(std::move(sequence));
  return id;
}

void Engine::cancel(RequestId id) {
  for (const auto& sequence : sequences_)
    if (sequence->id == id) sequence->cancelled = true;
}

void Engine::forget(RequestId id) {
  std::erase_if(kept_, [&](KeptState& kept) {
    if (kept.id == id) pool_.release(kept.state);
    return kept.id == id;
  });
}

bool Engine::step() {
  // Callbacks may submit, so finished sequences leave the list only at the end of a turn.
  for (size_t i = 0; i < sequences_.size(); ++i)
    if (Sequence& sequence = *sequences_[i]; sequence.cancelled && !sequence.finished)
      finish(sequence, FinishReason::Cancelled);
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->finished; });
  if (sequences_.empty()) return false;
  compute(plan());
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->finished; });
  return true;
}

void Engine::run_until_idle() {
  while (step()) {
  }
}

// The kept state that a waiting sequence continues, if it is there and fits.
Engine::Kept Engine::resumable(const Sequence& sequence) {
  if (!sequence.request.resume) return kept_.end();
  const auto kept = std::ranges::find(kept_, sequence.request.resume->from, &KeptState::id);
  if (kept == kept_.end() || kept->tokens.size() >= sequence.tokens.size() ||
      !std::equal(kept->tokens.begin(), kept->tokens.end(), sequence.tokens.begin()))
    return kept_.end();
  return kept;
}

SequenceView Engine::view(const Sequence& sequence) {
  SequenceView view{
      .tokens = std::ssize(sequence.tokens), .held = sequence.state.length, .running = sequence.running()};
  if (view.running) {
    view.missing_pages = pool_.missing_pages(sequence.state, view.tokens);
    return view;
  }
  const int64_t room = held_room(view.tokens + 1);
  view.needs_slot = true;
  view.missing_pages = StatePool::pages_for(room);
  if (const Kept kept = resumable(sequence); kept != kept_.end()) {
    view.held = kept->state.length;
    view.needs_slot = sequence.request.resume->share;
    // A copy shares the full pages and gets its own open one.
    view.missing_pages = view.needs_slot ? view.missing_pages - view.held / StatePool::kPageTokens
                                         : pool_.missing_pages(kept->state, room);
  }
  return view;
}

// Frees memory by dropping a kept state: the oldest that nobody waits for, else the oldest.
bool Engine::drop_kept() {
  if (kept_.empty()) return false;
  const auto awaited = [&](const KeptState& kept) {
    return std::ranges::any_of(sequences_, [&](const auto& sequence) {
      return !sequence->running() && sequence->request.resume && sequence->request.resume->from == kept.id;
    });
  };
  const auto free = std::ranges::find_if_not(kept_, awaited);
  forget(free == kept_.end() ? kept_.front().id : free->id);
  return true;
}

Decision Engine::plan() {
  for (;;) {
    std::vector<SequenceView> views;
    for (const auto& sequence : sequences_) views.push_back(view(*sequence));
    Decision decision =
        decide(views, {.free_pages = pool_.free_pages(), .free_slots = pool_.free_slots()}, options_.steps);
    if (decision.short_of_memory && drop_kept()) continue;
    if (!decision.preempt) {
      CHECK(!decision.rows.empty(), "{} sequences and nothing to do", sequences_.size());
      return decision;
    }
    pool_.release(sequences_[*decision.preempt]->state);
    ++preemptions_;
  }
}

// Gives a waiting sequence its state: what it continues, or an empty one.
void Engine::start(Sequence& sequence) {
  const Kept kept = resumable(sequence);
  const std::optional<Resume> resume = std::exchange(sequence.request.resume, std::nullopt);
  if (kept == kept_.end()) {
    if (resume && !resume->share) forget(resume->from);
    sequence.state = pool_.acquire();
  } else if (resume->share) {
    sequence.state = pool_.fork(kept->state);
  } else {
    sequence.state = std::move(kept->state);
    kept_.erase(kept);
  }
  CHECK(pool_.grow(sequence.state, held_room(std::ssize(sequence.tokens) + 1)));
}

void Engine::compute(const Decision& decision) {
  std::vector<Sequence*> chosen;
  for (const RowRange& range : decision.rows) chosen.push_back(sequences_[range.index].get());
  std::vector<Drawn> drawn;
  try {
    std::vector<SequenceRows> rows;
    for (size_t i = 0; i < chosen.size(); ++i) {
      Sequence& sequence = *chosen[i];
      const RowRange& range = decision.rows[i];
      if (range.starts) start(sequence);
      CHECK(pool_.grow(sequence.state, std::ssize(sequence.tokens)));
      SequenceRows& row = rows.emplace_back(SequenceRows{.state = &sequence.state});
      row.tokens = std::span(sequence.tokens)
                       .subspan(static_cast<size_t>(sequence.state.length), static_cast<size_t>(range.count));
      if (sequence.state.length + range.count == std::ssize(sequence.tokens)) row.heads.push_back(range.count - 1);
    }
    drawn.resize(rows.size());
    runner_.run(rows, [&](const Pass& pass) {
      std::vector<Drawn> results = draw(pass, chosen);
      for (size_t i = 0; i < results.size(); ++i) drawn[pass.built.heads[i].index] = std::move(results[i]);
    });
    model_.executor.wait();
  } catch (const std::exception& error) {
    log::error("step failed sequences={} error=\"{}\"", chosen.size(), error.what());
    for (Sequence* sequence : chosen) finish(*sequence, FinishReason::Error, {.error = error.what()});
    return;
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    Sequence& sequence = *chosen[i];
    pool_.commit(sequence.state, sequence.state.length + decision.rows[i].count);
    if (sequence.state.length == std::ssize(sequence.tokens)) take(sequence, drawn[i]);
  }
}

std::vector<Drawn> Engine::draw(const Pass& pass, const std::vector<Sequence*>& chosen) {
  if (pass.built.heads.empty()) return {};
  std::vector<DrawRow> rows;
  std::vector<std::vector<TokenEntry>> entries(pass.built.heads.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    Sequence& sequence = *chosen[pass.built.heads[i].index];
    constrain(sequence);
    const Sampling& sampling = sequence.request.sampling;
    std::span<const int32_t> banned;
    if (sequence.answered() < sequence.request.min_tokens) banned = sequence.stop_tokens;
    sequence.history.append_entries(banned, entries[i]);
    rows.push_back({.how = {.temperature = sampling.temperature,
                            .top_k = sampling.top_k,
                            .top_p = sampling.top_p,
                            .min_p = sampling.min_p,
                            .key = sequence.key,
                            .position = sequence.tokens.size()},
                    .penalties = sampling.penalties,
                    .entries = entries[i],
                    .allowed = sequence.allowed,
                    .logprobs = sequence.request.logprobs});
  }
  return sampler_.draw(pass.outputs.logits, rows);
}

// Asks the sequence's constraint what the next draw may give.
void Engine::constrain(Sequence& sequence) {
  TokenConstraint* constraint = sequence.request.constraint.get();
  sequence.allowed.clear();
  if (constraint == nullptr) return;
  try {
    sequence.complete = constraint->finished();
    if (sequence.complete) return;
    sequence.allowed = sampler_.allowed();
    if (!constraint->narrow(sequence.allowed)) return sequence.allowed.clear();
    if (!constraint->may_end()) return;
    for (const int32_t token : sequence.stop_tokens) {
      const auto word = static_cast<size_t>(token / 32);
      sequence.allowed[word] |= sampler_.allowed()[word] & static_cast<int32_t>(1u << (token % 32));
    }
  } catch (const std::exception& error) {
    sequence.allowed.clear();
    sequence.fault = error.what();
  }
}

// A token of the answer was drawn.
void Engine::take(Sequence& sequence, const Drawn& drawn) {
  if (!sequence.fault.empty()) return finish(sequence, FinishReason::Error, {.error = sequence.fault});
  if (sequence.complete) return finish(sequence, FinishReason::Stop);
  if (drawn.token < 0)
    return finish(sequence, FinishReason::Error, {.error = "no token can be drawn: every logit is masked or NaN"});
  sequence.tokens.push_back(drawn.token);
  sequence.history.add(drawn.token);
  Event event{.token = drawn.token, .logprob = drawn.logprob, .top = drawn.top};
  if (std::ranges::binary_search(sequence.stop_tokens, drawn.token))
    return finish(sequence, FinishReason::Stop, std::move(event));
  if (TokenConstraint* constraint = sequence.request.constraint.get()) {
    try {
      constraint->advance(drawn.token);
      sequence.complete = constraint->finished();
    } catch (const std::exception& error) {
      return finish(sequence, FinishReason::Error, {.error = error.what()});
    }
  }
  const Verdict verdict = deliver(sequence, std::move(event));
  if (sequence.finished) return;
  if (verdict == Verdict::Stop || sequence.complete) return finish(sequence, FinishReason::Stop);
  if (sequence.answered() == sequence.request.max_tokens) return finish(sequence, FinishReason::Length);
  // The last position is computed once its token is known, so an answer may reach one token beyond it.
  if (std::ssize(sequence.tokens) > options_.context) finish(sequence, FinishReason::Context);
}

Verdict Engine::deliver(Sequence& sequence, Event event) {
  event.request = sequence.id;
  if (!sequence.request.on_event) return Verdict::Continue;
  try {
    return sequence.request.on_event(event);
  } catch (const std::exception& error) {
    log::error("callback failed request={} error=\"{}\"", sequence.id, error.what());
    if (!event.finish) finish(sequence, FinishReason::Error, {.error = error.what()});
    return Verdict::Stop;
  }
}

void Engine::finish(Sequence& sequence, FinishReason reason, Event event) {
  const bool whole = reason == FinishReason::Stop || reason == FinishReason::Length || reason == FinishReason::Context;
  if (whole && sequence.request.keep) {
    sequence.tokens.resize(static_cast<size_t>(sequence.state.length));
    kept_.push_back({.id = sequence.id, .tokens = std::move(sequence.tokens), .state = std::move(sequence.state)});
    sequence.state = {};
  } else {
    pool_.release(sequence.state);
  }
  sequence.finished = true;
  event.finish = reason;
  deliver(sequence, std::move(event));
}

Engine::Load Engine::load() const {
  Load load{.kept = kept_.size(), .preemptions = preemptions_};
  for (const auto& sequence : sequences_) ++(sequence->running() ? load.running : load.waiting);
  return load;
}

void Engine::check_integrity() const {
  std::vector<const SequenceState*> held;
  for (const auto& sequence : sequences_) held.push_back(&sequence->state);
  for (const KeptState& kept : kept_) held.push_back(&kept.state);
  pool_.check_integrity(held);
}

}  // namespace braid
