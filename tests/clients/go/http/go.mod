module thuban.test/http

go 1.21
