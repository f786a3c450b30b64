// A library that is not a plugin.
extern "C" int elmo_no_plugin() {
    return 0;
}
