/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: whatever a whole response holds, what is found lies within it. */
#include "ldap/content.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
demand_within(const struct slam_bytes *found, const uint8_t *bytes, size_t size)
{
    if (found->len == 0)
        return;
    if (found->at < bytes || found->len > size ||
        (size_t)(found->at - bytes) > size - found->len)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy =
        malloc(size ? size : 1); /* its own, so that a read beyond is seen */
    struct slam_bytes found;

    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (slam_content_dn(copy, size, &found))
        demand_within(&found, copy, size);
    if (slam_content_attribute(copy, size, (const uint8_t *)"cn", 2, &found))
        demand_within(&found, copy, size);
    if (slam_content_cookie(copy, size, &found))
        demand_within(&found, copy, size);
    if (slam_content_credentials(copy, size, &found))
        demand_within(&found, copy, size);
    if (slam_content_diagnostic(copy, size, &found))
        demand_within(&found, copy, size);
    free(copy);
    return 0;
}
