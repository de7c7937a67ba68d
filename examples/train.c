/* train.c - a training loop that tells sonde what it does: examples/train [EPOCHS]
 *
 * Two layers learn by plain stochastic gradient descent to tell points inside a ring from those
 * outside of it, on data that is made here. The loss that is printed is the one that is recorded:
 *
 *     sonde record -o train.run -- build/release/example_train
 *     sonde report train.run
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <sonde/ml.h>

enum { POINTS = 2048, HELD_OUT = 256, BATCH = 32, HIDDEN = 16 };

static double points[POINTS][2], labels[POINTS];
static double w1[HIDDEN][2], b1[HIDDEN], w2[HIDDEN], b2;                 /* the model */
static double w1_grad[HIDDEN][2], b1_grad[HIDDEN], w2_grad[HIDDEN], b2_grad;
static double hidden[BATCH][HIDDEN], output[BATCH];

static uint64_t seed = 1;

static double uniform(double low, double high) /* the same numbers in every run */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(seed >> 11) / (double)(1ull << 53);
}

static void data_make(void)
{
    for (int i = 0; i < POINTS; i++) {
        points[i][0] = uniform(-2, 2);
        points[i][1] = uniform(-2, 2);
        const double r = hypot(points[i][0], points[i][1]);
        labels[i] = r > 0.7 && r < 1.6;
    }
}

static void model_make(void)
{
    for (int h = 0; h < HIDDEN; h++) {
        for (int k = 0; k < 2; k++) w1[h][k] = uniform(-1, 1);
        b1[h] = uniform(-1, 1);
        w2[h] = uniform(-0.5, 0.5);
    }
}

/* The mean loss of count points from first on; *right grows by those that were told apart. */
static double forward(int first, int count, int *right)
{
    double loss = 0;
    for (int i = 0; i < count; i++) {
        double sum = b2;
        for (int h = 0; h < HIDDEN; h++) {
            hidden[i][h] = tanh(w1[h][0] * points[first + i][0] + w1[h][1] * points[first + i][1] +
                                b1[h]);
            sum += w2[h] * hidden[i][h];
        }
        output[i] = 1 / (1 + exp(-sum));
        const double p = labels[first + i] > 0 ? output[i] : 1 - output[i];
        loss -= log(p + 1e-12);
        *right += p > 0.5;
    }
    return loss / count;
}

static void backward(int first, int count)
{
    for (int h = 0; h < HIDDEN; h++) w1_grad[h][0] = w1_grad[h][1] = b1_grad[h] = w2_grad[h] = 0;
    b2_grad = 0;
    for (int i = 0; i < count; i++) {
        const double error = (output[i] - labels[first + i]) / count;
        b2_grad += error;
        for (int h = 0; h < HIDDEN; h++) {
            const double slope = error * w2[h] * (1 - hidden[i][h] * hidden[i][h]);
            w2_grad[h] += error * hidden[i][h];
            b1_grad[h] += slope;
            for (int k = 0; k < 2; k++) w1_grad[h][k] += slope * points[first + i][k];
        }
    }
}

static void optimize(double rate)
{
    for (int h = 0; h < HIDDEN; h++) {
        for (int k = 0; k < 2; k++) w1[h][k] -= rate * w1_grad[h][k];
        b1[h] -= rate * b1_grad[h];
        w2[h] -= rate * w2_grad[h];
    }
    b2 -= rate * b2_grad;
}

static double validate(int *right)
{
    double loss = 0;
    for (int i = POINTS - HELD_OUT; i < POINTS; i += BATCH) loss += forward(i, BATCH, right);
    return loss / ((double)HELD_OUT / BATCH);
}

static void train_epoch(struct sonde_ml_loop *loop, int64_t epoch)
{
    const double rate = 0.5 / (1 + 0.05 * (double)epoch);
    const int batches = (POINTS - HELD_OUT) / BATCH;
    double loss = 0;
    int right = 0, right_held_out = 0;
    sonde_ml_epoch_begin(loop, epoch);
    for (int b = 0; b < batches; b++) {
        sonde_ml_step_begin(loop, SONDE_ML_FORWARD);
        loss += forward(b * BATCH, BATCH, &right);
        sonde_ml_phase(loop, SONDE_ML_BACKWARD);
        backward(b * BATCH, BATCH);
        sonde_ml_phase(loop, SONDE_ML_OPTIMIZER);
        optimize(rate);
        sonde_ml_step_end(loop, BATCH, SONDE_OK);
    }
    sonde_ml_phase(loop, SONDE_ML_VALIDATION);
    const double held_out_loss = validate(&right_held_out);
    sonde_ml_value(loop, "train_loss", loss / batches);
    sonde_ml_value(loop, "val_loss", held_out_loss);
    sonde_ml_value(loop, "train_acc", (double)right / (POINTS - HELD_OUT));
    sonde_ml_value(loop, "val_acc", (double)right_held_out / HELD_OUT);
    sonde_ml_value(loop, "learning_rate", rate);
    sonde_ml_epoch_end(loop, SONDE_OK);
    printf("epoch %lld train_loss %.17g val_loss %.17g\n", (long long)epoch, loss / batches,
           held_out_loss);
}

static void infer(uint64_t batch)
{
    struct sonde_ml_scope s;
    int right = 0;
    sonde_ml_inference_begin(&s, "ring", batch);
    forward(0, (int)batch, &right);
    sonde_ml_inference_end(&s, SONDE_OK);
}

int main(int argc, char **argv)
{
    static struct sonde_ml_loop loop;
    struct sonde_ml_scope s;
    const long epochs = argc > 1 ? strtol(argv[1], NULL, 10) : 10;

    sonde_ml_dataset_load_begin(&s, "ring", "memory");
    data_make();
    sonde_ml_dataset_load_end(&s, POINTS, sizeof(points) + sizeof(labels), SONDE_OK);
    sonde_ml_model_init_begin(&s, "ring");
    model_make();
    sonde_ml_model_init_end(&s, SONDE_OK);

    sonde_ml_loop_define(&loop, "ring");
    for (int64_t epoch = 0; epoch < epochs; epoch++) train_epoch(&loop, epoch);
    for (int i = 0; i < 100; i++) infer(1u << i % 6);
    return 0;
}
