/* SPDX-License-Identifier: Apache-2.0 */
/* Every edge of the two state machines, and every edge that does not exist. */
#include "load/connection_state.h"
#include "slam_test.h"

enum {
    CONNECTING,
    UP,
    DRAINING,
    UNBOUND,
    BROKEN,
    REPLACING,
    DOWN,
    UNABLE,
    CLOSED,
    REFUSED
};
enum { NOT_STARTED, READY, BUSY, THINKING, NONE };

TEST(every_edge_of_a_connection)
{
    /* columns: connected, failed, failed here, drain, unbind, replace, break, lose,
     * follow, close */
    static const uint8_t next[SLAM_CONN_STATES][SLAM_CONN_EVENTS] = {
        [CONNECTING] = {UP, DOWN, UNABLE, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
                        REFUSED, CLOSED},
        [UP] = {REFUSED, REFUSED, REFUSED, DRAINING, UNBOUND, REFUSED, BROKEN, REFUSED,
                REFUSED, CLOSED},
        [DRAINING] = {REFUSED, REFUSED, REFUSED, REFUSED, UNBOUND, REPLACING, BROKEN,
                      REFUSED, REFUSED, CLOSED},
        [UNBOUND] = {REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REPLACING, BROKEN,
                     REFUSED, REFUSED, CLOSED},
        [BROKEN] = {REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, DOWN,
                    REFUSED, CLOSED},
        [REPLACING] = {UP, DOWN, UNABLE, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
                       REFUSED, CLOSED},
        [DOWN] = {UP, DOWN, UNABLE, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
                  REPLACING, CLOSED},
        [UNABLE] = {UP, DOWN, UNABLE, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
                    REPLACING, CLOSED},
        [CLOSED] = {REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
                    REFUSED, REFUSED, REFUSED}};

    CHECK_EQ(SLAM_CONN_STATES, REFUSED);
    for (int state = 0; state < SLAM_CONN_STATES; state++)
        for (int event = 0; event < SLAM_CONN_EVENTS; event++)
            CHECK_EQ(slam_conn_next((enum slam_conn_state)state,
                                    (enum slam_conn_event)event),
                     next[state][event]);
}

TEST(every_edge_of_a_client)
{
    /* columns: start, begin, free, think, wake */
    static const uint8_t next[SLAM_CLIENT_STATES][SLAM_CLIENT_EVENTS] = {
        [NOT_STARTED] = {READY, NONE, NONE, NONE, NONE},
        [READY] = {NONE, BUSY, NONE, NONE, NONE},
        [BUSY] = {NONE, NONE, READY, THINKING, NONE},
        [THINKING] = {NONE, NONE, NONE, NONE, READY}};

    CHECK_EQ(SLAM_CLIENT_STATES, NONE);
    for (int state = 0; state < SLAM_CLIENT_STATES; state++)
        for (int event = 0; event < SLAM_CLIENT_EVENTS; event++)
            CHECK_EQ(slam_client_next((enum slam_client_state)state,
                                      (enum slam_client_event)event),
                     next[state][event]);
}

TEST(all_memory_of_zeros_is_a_connection_before_its_first_set_up)
{
    CHECK_EQ(SLAM_CONN_CONNECTING, 0);
    CHECK_EQ(SLAM_CLIENT_NOT_STARTED, 0);
}
