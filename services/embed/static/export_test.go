package static

var Repeated = repeated
