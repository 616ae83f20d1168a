/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts of a stream: slam_stream_add_script, and what a script may not be. */
#include "core/slam_err.h"
#include "load/stream.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_STEPS 65535u

static int
say(char *err, size_t err_len, int rc, const char *text)
{
    snprintf(err, err_len, "%s", text);
    return rc;
}

static const char *
script_fault(const struct slam_stream *s, const struct slam_step_config *steps,
             size_t count)
{
    bool is_given_up = false;

    if (count < 1 || count > MAX_STEPS - s->step_count)
        return "a stream has 1 to 65535 steps";
    if (steps[0].pause_ns > 0)
        return "a script begins with an operation, not with a pause";
    for (size_t i = 0; i < count; i++) {
        const struct slam_stream_op *op;

        if (steps[i].operation >= s->op_count)
            return "a step names no operation of the stream";
        op = &s->ops[steps[i].operation];
        if ((op->action == SLAM_ACTION_ABANDON) != is_given_up)
            return "an abandon follows a request that is not awaited, and it alone";
        is_given_up = op->extras && !op->extras->awaits;
        if (op->action == SLAM_ACTION_UNBIND &&
            (i + 1 < count || s->settings.in_flight > 1))
            return "an unbind is the last step, of sessions that have a connection";
    }
    return is_given_up ? "a request that is not awaited is abandoned next" : NULL;
}

int
slam_stream_add_script(struct slam_stream *s, uint32_t weight,
                       const struct slam_step_config *config, size_t count, char *err,
                       size_t err_len)
{
    const char *fault = script_fault(s, config, count);
    struct slam_step *steps;
    struct slam_script *scripts;

    if (fault)
        return say(err, err_len, SLAM_EINVAL, fault);
    if (weight < 1)
        return say(err, err_len, SLAM_EINVAL, "a script's weight is at least 1");
    steps = realloc(s->steps, (s->step_count + count) * sizeof(*steps));
    if (steps)
        s->steps = steps;
    scripts = realloc(s->scripts, (s->script_count + 1) * sizeof(*scripts));
    if (scripts)
        s->scripts = scripts;
    if (!steps || !scripts)
        return say(err, err_len, SLAM_ENOMEM, "no memory for a script");
    s->scripts[s->script_count++] =
        (struct slam_script){.first_step = (uint32_t)s->step_count, .weight = weight};
    s->total_weight += weight;
    for (size_t i = 0; i < count; i++) {
        struct slam_step step = {.op = config[i].operation,
                                 .pause_ns = config[i].pause_ns,
                                 .last = i + 1 == count};
        bool is_abandon = s->ops[step.op].action == SLAM_ACTION_ABANDON;

        if (step.pause_ns > 0 || is_abandon)
            step.pause_list = s->pause_count++;
        s->steps[s->step_count++] = step;
    }
    if (count > 1)
        s->has_sessions = true;
    return SLAM_OK;
}

static bool
fills(const struct slam_stream *s, const struct slam_script *script, uint32_t ledger)
{
    for (const struct slam_step *step = &s->steps[script->first_step];; step++) {
        const struct slam_op_extras *extras = s->ops[step->op].extras;

        if (extras && extras->ledger_take != SLAM_NO_VARIABLE)
            return false;
        if (extras && extras->ledger_put != SLAM_NO_VARIABLE &&
            extras->ledger == ledger)
            return true;
        if (step->last)
            return false;
    }
}

const struct slam_script *
slam_stream_filling(const struct slam_stream *s, uint32_t ledger)
{
    for (size_t i = 0; i < s->script_count; i++)
        if (fills(s, &s->scripts[i], ledger))
            return &s->scripts[i];
    return NULL;
}

const char *
slam_stream_fault(const struct slam_stream *s)
{
    if (s->script_count == 0)
        return "a stream has no operations";
    for (size_t i = 0; i < s->step_count; i++) {
        const struct slam_op_extras *extras = s->ops[s->steps[i].op].extras;

        if (extras && extras->ledger_take != SLAM_NO_VARIABLE &&
            !slam_stream_filling(s, extras->ledger))
            return "no script adds to a ledger before it takes from one";
    }
    return NULL;
}
