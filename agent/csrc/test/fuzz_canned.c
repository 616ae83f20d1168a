/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: the responder's view of what a client sends. */
#include "responder/canned.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slam_canned_request request;
    uint8_t answer[SLAM_CANNED_ANSWER_MAX];
    size_t used = 0;

    while (slam_canned_parse(data + used, size - used, &request) == 1) {
        if (request.len < 7 || request.len > size - used)
            abort();
        if (slam_canned_has_answer(request.kind) &&
            slam_canned_answer(request.kind, request.message_id, answer) >
                sizeof(answer))
            abort();
        used += request.len;
    }
    return 0;
}
