/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: whatever a directory sends, and however the reads cut it, the parser stays
 * within the bytes that it was given, and the cut changes nothing. The first byte of
 * the input is the length of a read, the rest is what the directory sends. */
#include "ldap/pdu.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PDU 4096u
#define MESSAGES 64u

struct outcome {
    size_t count;
    int refused;
    struct slam_pdu pdus[MESSAGES];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
demand(int condition)
{
    if (!condition)
        abort();
}

static void
parse(const uint8_t *bytes, size_t size, size_t chunk, struct outcome *outcome)
{
    struct slam_pdu_parser parser;
    struct slam_pdu pdu;
    size_t pdu_bytes = 0;

    memset(outcome, 0, sizeof(*outcome));
    slam_pdu_parser_init(&parser, MAX_PDU);
    for (size_t at = 0; at < size && !outcome->refused; at += chunk) {
        size_t len = size - at < chunk ? size - at : chunk;
        uint8_t *copy = malloc(len); /* its own, so that a read beyond it is seen */
        const uint8_t *next = copy;
        int rc;

        demand(copy != NULL);
        memcpy(copy, bytes + at, len);
        while ((rc = slam_pdu_next(&parser, &next, &len, &pdu)) == 1) {
            demand(pdu.message_id >= 0 && pdu.result_code >= -1);
            demand(pdu.len >= 7 && pdu.len <= MAX_PDU);
            pdu_bytes += pdu.len;
            demand(pdu_bytes <= size);
            if (outcome->count < MESSAGES)
                outcome->pdus[outcome->count] = pdu;
            outcome->count++;
        }
        if (rc < 0)
            outcome->refused = 1;
        else
            demand(len == 0);
        free(copy);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome whole, cut;

    if (size < 2)
        return 0;
    parse(data + 1, size - 1, size - 1, &whole);
    parse(data + 1, size - 1, (size_t)data[0] % 64 + 1, &cut);
    demand(whole.count == cut.count);
    demand(whole.refused == cut.refused);
    for (size_t i = 0; i < whole.count && i < MESSAGES; i++) {
        demand(whole.pdus[i].message_id == cut.pdus[i].message_id);
        demand(whole.pdus[i].tag == cut.pdus[i].tag);
        demand(whole.pdus[i].result_code == cut.pdus[i].result_code);
        demand(whole.pdus[i].len == cut.pdus[i].len);
    }
    return 0;
}
