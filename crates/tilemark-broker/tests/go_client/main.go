// Real exchanges by amqp091-go, another client, against a broker: client PORT SCENARIO.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var port = os.Args[1]

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(holds bool, format string, values ...any) {
	if !holds {
		panic(fmt.Sprintf(format, values...))
	}
}

func connect() (*amqp.Connection, *amqp.Channel) {
	connection, err := amqp.Dial("amqp://guest:guest@127.0.0.1:" + port + "/")
	must(err)
	channel, err := connection.Channel()
	must(err)
	return connection, channel
}

func publish(channel *amqp.Channel, exchange, key string, message amqp.Publishing) {
	must(channel.PublishWithContext(context.Background(), exchange, key, false, false, message))
}

func next(deliveries <-chan amqp.Delivery) amqp.Delivery {
	select {
	case delivery, open := <-deliveries:
		check(open, "deliveries ended")
		return delivery
	case <-time.After(10 * time.Second):
		panic("no delivery came")
	}
}

func queue(channel *amqp.Channel) string {
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	must(err)
	return queue.Name
}

func publishAndConsume() {
	connection, channel := connect()
	name := queue(channel)
	must(channel.Qos(10, 0, false))
	deliveries, err := channel.Consume(name, "", false, false, false, false, nil)
	must(err)
	headers := amqp.Table{"n": int32(7), "t": amqp.Table{"deep": true}, "a": []interface{}{"x", int64(2)}}
	large := bytes.Repeat([]byte("x"), 500_000)
	go func() {
		for i := 0; i < 1000; i++ {
			body := []byte(fmt.Sprint(i))
			publish(channel, "", name, amqp.Publishing{Body: body, Headers: headers, MessageId: "id", Timestamp: time.Unix(1, 0)})
		}
		publish(channel, "", name, amqp.Publishing{Body: large})
	}()
	for i := 0; i < 1000; i++ {
		delivery := next(deliveries)
		check(string(delivery.Body) == fmt.Sprint(i), "%d: %s", i, delivery.Body)
		check(delivery.Headers["n"] == int32(7) && delivery.MessageId == "id" && delivery.RoutingKey == name, "%v", delivery)
		if i%10 == 9 {
			must(delivery.Ack(true))
		}
	}
	check(bytes.Equal(next(deliveries).Body, large), "the large message came otherwise")
	must(connection.Close())
}

func confirm() {
	connection, channel := connect()
	name := queue(channel)
	must(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 1000))
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	for i := 0; i < 1000; i++ {
		publish(channel, "", name, amqp.Publishing{Body: []byte("x")})
	}
	for i := 1; i <= 1000; i++ {
		confirmation := <-confirms
		check(confirmation.Ack && confirmation.DeliveryTag == uint64(i), "%v", confirmation)
	}
	must(channel.PublishWithContext(context.Background(), "", "nowhere", true, false, amqp.Publishing{Body: []byte("back")}))
	returned := <-returns
	check(returned.ReplyCode == 312 && string(returned.Body) == "back", "%v", returned)
	check((<-confirms).Ack, "a returned message is confirmed, too")
	must(connection.Close())
}

func nack() {
	connection, channel := connect()
	name := queue(channel)
	for i := 0; i < 3; i++ {
		publish(channel, "", name, amqp.Publishing{Body: []byte{byte(i)}})
	}
	deliveries, err := channel.Consume(name, "c", false, false, false, false, nil)
	must(err)
	first, second, third := next(deliveries), next(deliveries), next(deliveries)
	must(third.Reject(false))
	must(second.Nack(true, true))
	again, after := next(deliveries), next(deliveries)
	check(again.Body[0] == first.Body[0] && after.Body[0] == second.Body[0], "%v %v", again, after)
	check(again.Redelivered && after.Redelivered, "not marked")
	must(channel.Cancel("c", false))
	must(connection.Close())
}

func transactions() {
	connection, channel := connect()
	name := queue(channel)
	must(channel.Tx())
	publish(channel, "", name, amqp.Publishing{Body: []byte("dropped")})
	must(channel.TxRollback())
	publish(channel, "", name, amqp.Publishing{Body: []byte("kept")})
	must(channel.TxCommit())
	delivery, found, err := channel.Get(name, true)
	must(err)
	check(found && string(delivery.Body) == "kept", "%v", delivery)
	must(connection.Close())
}

func topics() {
	connection, channel := connect()
	must(channel.ExchangeDeclare("go-topic", "topic", false, true, false, false, nil))
	name := queue(channel)
	must(channel.QueueBind(name, "a.*.c", "go-topic", false, nil))
	must(channel.QueueBind(name, "#.z", "go-topic", false, nil))
	for _, key := range []string{"a.b.c", "a.b", "z", "x.y.z", "a.b.c.d"} {
		publish(channel, "go-topic", key, amqp.Publishing{Body: []byte(key)})
	}
	var seen []string
	for {
		delivery, found, err := channel.Get(name, true)
		must(err)
		if !found {
			break
		}
		seen = append(seen, string(delivery.Body))
	}
	check(strings.Join(seen, " ") == "a.b.c z x.y.z", "%v", seen)
	_, err := channel.QueueDeclarePassive("absent", false, false, false, false, nil)
	closed, is := err.(*amqp.Error)
	check(is && closed.Code == 404, "%v", err)
	must(connection.Close())
}

// store publishes confirmed, persistent messages and acknowledges some; the broker is killed after it.
func store() {
	_, channel := connect()
	_, err := channel.QueueDeclare("go-kept", true, false, false, false, nil)
	must(err)
	must(channel.Confirm(false))
	for i := 0; i < 50; i++ {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(fmt.Sprint(i))}
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(context.Background(), "", "go-kept", false, false, message)
		must(err)
		check(confirmation.Wait(), "refused")
	}
}

func recovered() {
	connection, channel := connect()
	for i := 0; i < 50; i++ {
		delivery, found, err := channel.Get("go-kept", true)
		must(err)
		check(found && string(delivery.Body) == fmt.Sprint(i), "%d: %v", i, delivery)
	}
	left, err := channel.QueueDelete("go-kept", false, false, false)
	must(err)
	check(left == 0, "%d left", left)
	must(connection.Close())
}

func main() {
	map[string]func(){
		"publish_and_consume": publishAndConsume, "confirm": confirm, "nack": nack, "transactions": transactions,
		"topics": topics, "store": store, "recovered": recovered,
	}[os.Args[2]]()
}
