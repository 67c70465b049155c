// An addon of Node that has OpenSSL take a new seed from the kernel. Node exports the symbols of
// its OpenSSL to addons.
typedef void *napi_value, *napi_env, *napi_info;
typedef napi_value (*napi_callback)(napi_env, napi_info);
int napi_create_function(napi_env, const char *, unsigned long, napi_callback, void *, napi_value *);
int RAND_poll(void);

static napi_value reseed(napi_env env, napi_info info) {
    if (RAND_poll() != 1)
        __builtin_trap();
    return 0;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
    napi_value f = 0;
    napi_create_function(env, "reseed", 6, reseed, 0, &f);
    return f;
}
