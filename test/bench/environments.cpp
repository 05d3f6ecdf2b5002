// Plain loops over the environments of samples/environments: for each copy all steps, written by hand. Times one of
// them and prints nanoseconds a step of one copy.
//
//   environments NAME STEPS COPIES
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr float kPi = 3.14159265358979f;

struct Outcome {
  float reward;
  bool done;
};

Outcome cartpole(float* s, float action) {
  const float force = action > 0.5f ? 10.0f : -10.0f, sine = std::sin(s[2]), cosine = std::cos(s[2]);
  const float push = (force + 0.05f * s[3] * s[3] * sine) / 1.1f;
  const float turning = (9.8f * sine - cosine * push) / (0.5f * (4.0f / 3 - 0.1f * cosine * cosine / 1.1f));
  const float pushing = push - 0.05f * turning * cosine / 1.1f;
  s[0] += 0.02f * s[1], s[1] += 0.02f * pushing, s[2] += 0.02f * s[3], s[3] += 0.02f * turning;
  return {1, std::fabs(s[0]) > 2.4f || std::fabs(s[2]) > 12 * 2 * kPi / 360};
}

float wrapped(float angle) { return angle - 2 * kPi * std::floor((angle + kPi) / (2 * kPi)); }

Outcome pendulum(float* s, float torque) {
  torque = std::clamp(torque, -2.0f, 2.0f);
  const float off = wrapped(s[0]), cost = off * off + 0.1f * s[1] * s[1] + 0.001f * torque * torque;
  s[1] = std::clamp(s[1] + (15 * std::sin(s[0]) + 3 * torque) * 0.05f, -8.0f, 8.0f);
  s[0] += 0.05f * s[1];
  return {-cost, false};
}

void acrobot_rates(const float* y, float torque, float* rates) {
  const float cosine = std::cos(y[1]), sine = std::sin(y[1]), d1 = cosine + 3.5f, d2 = 0.5f * cosine + 1.25f;
  const float phi2 = 4.9f * std::cos(y[0] + y[1] - kPi / 2);
  const float phi1 = -0.5f * y[3] * y[3] * sine - y[3] * y[2] * sine + 14.7f * std::cos(y[0] - kPi / 2) + phi2;
  rates[0] = y[2], rates[1] = y[3];
  rates[3] = (torque + d2 / d1 * phi1 - 0.5f * y[2] * y[2] * sine - phi2) / (1.25f - d2 * d2 / d1);
  rates[2] = -(d2 * rates[3] + phi1) / d1;
}

Outcome acrobot(float* s, float action) {
  constexpr float kTimes[] = {0.1f, 0.1f, 0.2f};
  float k[4][4], y[4];
  acrobot_rates(s, action - 1, k[0]);
  for (int stage = 0; stage < 3; ++stage) {
    for (int i = 0; i < 4; ++i) y[i] = s[i] + kTimes[stage] * k[stage][i];
    acrobot_rates(y, action - 1, k[stage + 1]);
  }
  for (int i = 0; i < 4; ++i) s[i] += 0.2f / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);
  s[0] = wrapped(s[0]), s[1] = wrapped(s[1]);
  s[2] = std::clamp(s[2], -4 * kPi, 4 * kPi), s[3] = std::clamp(s[3], -9 * kPi, 9 * kPi);
  const bool done = -std::cos(s[0]) - std::cos(s[1] + s[0]) > 1;
  return {done ? 0.0f : -1.0f, done};
}

Outcome mountaincar(float* s, float action) {
  s[1] = std::clamp(s[1] + (action - 1) * 0.001f - 0.0025f * std::cos(3 * s[0]), -0.07f, 0.07f);
  s[0] = std::clamp(s[0] + s[1], -1.2f, 0.6f);
  if (s[0] < -1.19999f && s[1] < 0) s[1] = 0;
  return {-1, s[0] >= 0.5f && s[1] >= 0};
}

struct Batch {
  int steps, copies;
  std::vector<float> state, reset, actions, rewards;
  std::vector<char> ends;  // a byte each, as the programs have them
};

template <Outcome (*step)(float*, float), int size>
void run(Batch& b) {
  for (int c = 0; c < b.copies; ++c) {
    float s[size];
    for (int i = 0; i < size; ++i) s[i] = b.state[i * b.copies + c];
    for (int t = 0; t < b.steps; ++t) {
      const Outcome made = step(s, b.actions[t * b.copies + c]);
      b.rewards[t * b.copies + c] = made.reward, b.ends[t * b.copies + c] = made.done;
      for (int i = 0; i < size && made.done; ++i) s[i] = b.reset[i * b.copies + c];
    }
    for (int i = 0; i < size; ++i) b.state[i * b.copies + c] = s[i];
  }
}

}  // namespace

int main(int, char** argv) {
  const int steps = std::atoi(argv[2]), copies = std::atoi(argv[3]);
  Batch b{steps,
          copies,
          std::vector<float>(4 * copies),
          std::vector<float>(4 * copies),
          std::vector<float>(steps * copies),
          std::vector<float>(steps * copies),
          std::vector<char>(steps * copies)};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> small(-0.05f, 0.05f);
  for (float& x : b.state) x = small(random);
  for (float& x : b.actions) x = static_cast<float>(random() % 2);
  b.reset = b.state;
  const auto is = [&](const char* name) { return std::strcmp(argv[1], name) == 0; };
  double best = 1e30;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    if (is("cartpole")) run<cartpole, 4>(b);
    if (is("pendulum")) run<pendulum, 2>(b);
    if (is("acrobot")) run<acrobot, 4>(b);
    if (is("mountaincar")) run<mountaincar, 2>(b);
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%.4f\n", best / steps / copies);
}
