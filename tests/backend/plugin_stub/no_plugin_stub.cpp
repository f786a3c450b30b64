// A library that is no plugin.
extern "C" int elmo_no_plugin() {
    return 0;
}
