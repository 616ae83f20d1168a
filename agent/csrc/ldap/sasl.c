/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/sasl.h"

#include "core/slam_err.h"

#include <sasl/sasl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slam_sasl {
    sasl_conn_t *conn;
    sasl_callback_t callbacks[5]; /* libsasl keeps the pointer */
    char *mechanism;
    char *authcid;
    char *authzid;
    char *realm;
    sasl_secret_t *password;
    size_t password_size; /* of its allocation */
    bool begun;
};

/* sasl_callback_t holds functions of any type; the cast through void (*)(void) tells
 * the compiler that it is meant. */
#define CALLBACK(function) ((int (*)(void))(void (*)(void))(function))

static int
give_name(void *context, int id, const char **result, unsigned int *len)
{
    const struct slam_sasl *sasl = context;

    *result = id == SASL_CB_AUTHNAME ? sasl->authcid : sasl->authzid;
    if (len)
        *len = (unsigned int)strlen(*result);
    return SASL_OK;
}

static int
give_password(sasl_conn_t *conn, void *context, int id, sasl_secret_t **secret)
{
    const struct slam_sasl *sasl = context;

    (void)conn, (void)id;
    *secret = sasl->password;
    return SASL_OK;
}

static int
give_realm(void *context, int id, const char **offered, const char **result)
{
    const struct slam_sasl *sasl = context;

    (void)id;
    *result = sasl->realm;
    if (!*result)
        *result = offered && *offered ? *offered : "";
    return SASL_OK;
}

static void
erase_password(struct slam_sasl *sasl)
{
    if (sasl->password)
        explicit_bzero(sasl->password, sasl->password_size);
    free(sasl->password);
    sasl->password = NULL;
}

static bool
copy_texts(struct slam_sasl *sasl, const char *mechanism, const char *authcid,
           const char *authzid, const char *realm, const uint8_t *password,
           size_t password_len)
{
    sasl->mechanism = strdup(mechanism);
    sasl->authcid = strdup(authcid ? authcid : "");
    sasl->authzid = strdup(authzid ? authzid : "");
    if (!sasl->mechanism || !sasl->authcid || !sasl->authzid)
        return false;
    if (realm) {
        sasl->realm = strdup(realm);
        if (!sasl->realm)
            return false;
    }
    sasl->password_size = sizeof(*sasl->password) + password_len;
    sasl->password = calloc(1, sasl->password_size);
    if (!sasl->password)
        return false;
    sasl->password->len = password_len;
    if (password_len)
        memcpy(sasl->password->data, password, password_len);
    return true;
}

int
slam_sasl_create(const char *mechanism, const char *host, const char *authcid,
                 const uint8_t *password, size_t password_len, const char *authzid,
                 const char *realm, struct slam_sasl **out)
{
    /* as for the set-up: no security layer, and any mechanism that the job names */
    const sasl_security_properties_t properties = {0};
    struct slam_sasl *sasl = calloc(1, sizeof(*sasl));
    int rc;

    if (!sasl ||
        !copy_texts(sasl, mechanism, authcid, authzid, realm, password, password_len)) {
        slam_sasl_destroy(sasl);
        return SLAM_ENOMEM;
    }
    sasl->callbacks[0] = (sasl_callback_t){SASL_CB_AUTHNAME, CALLBACK(give_name), sasl};
    sasl->callbacks[1] = (sasl_callback_t){SASL_CB_USER, CALLBACK(give_name), sasl};
    sasl->callbacks[2] = (sasl_callback_t){SASL_CB_PASS, CALLBACK(give_password), sasl};
    sasl->callbacks[3] =
        (sasl_callback_t){SASL_CB_GETREALM, CALLBACK(give_realm), sasl};
    sasl->callbacks[4] = (sasl_callback_t){SASL_CB_LIST_END, NULL, NULL};
    rc = sasl_client_new("ldap", host && *host ? host : "localhost", NULL, NULL,
                         sasl->callbacks, 0, &sasl->conn);
    if (rc == SASL_OK)
        rc = sasl_setprop(sasl->conn, SASL_SEC_PROPS, &properties);
    /* EXTERNAL offers itself only where somebody vouches for the client */
    if (rc == SASL_OK)
        rc = sasl_setprop(sasl->conn, SASL_AUTH_EXTERNAL, "transport");
    if (rc != SASL_OK) {
        slam_sasl_destroy(sasl);
        return SLAM_EINVAL;
    }
    *out = sasl;
    return SLAM_OK;
}

int
slam_sasl_step(struct slam_sasl *sasl, const uint8_t *in, size_t in_len,
               const uint8_t **out, size_t *out_len)
{
    const char *answer = NULL;
    unsigned int answer_len = 0;
    int rc;

    if (!sasl->begun) {
        const char *chosen;

        sasl->begun = true;
        rc = sasl_client_start(sasl->conn, sasl->mechanism, NULL, &answer, &answer_len,
                               &chosen);
    } else {
        rc = sasl_client_step(sasl->conn, (const char *)in, (unsigned int)in_len, NULL,
                              &answer, &answer_len);
    }
    *out = (const uint8_t *)answer;
    *out_len = answer_len;
    if (rc == SASL_CONTINUE)
        return 1;
    erase_password(sasl);
    return rc == SASL_OK ? SLAM_OK : SLAM_ECONNECT;
}

void
slam_sasl_destroy(struct slam_sasl *sasl)
{
    if (!sasl)
        return;
    if (sasl->conn)
        sasl_dispose(&sasl->conn);
    erase_password(sasl);
    free(sasl->mechanism);
    free(sasl->authcid);
    free(sasl->authzid);
    free(sasl->realm);
    free(sasl);
}
