// The vector loops of attention.
#pragma once

#include <cstdint>

namespace cdynamo::runtime {

void scale_scores(float* values, int64_t count, float factor);
void scale_scores(double* values, int64_t count, double factor);

// Replaces scores by exp(score - maximum), where maximum is the greatest so far; adds them to *sum, which is
// first multiplied by the factor returned: exp(old maximum - new maximum).
float online_softmax_row(float* scores, int64_t count, float* maximum, float* sum);
double online_softmax_row(double* scores, int64_t count, double* maximum, double* sum);

// weight = exp(score * scale + mask - logsumexp) replaces the score, weight * (grad - mean) * scale the grad. `mask` may be null.
void softmax_gradient_row(float* scores, float* grads, int64_t count, const float* mask, float scale,
                          float logsumexp, float mean);
void softmax_gradient_row(double* scores, double* grads, int64_t count, const double* mask, double scale,
                          double logsumexp, double mean);

}  // namespace cdynamo::runtime
